"use strict";
const spoken = document.getElementById("status");

const slider = document.getElementById("slider");
if (slider) {
  const range = slider.querySelector("input");
  const show = () => {
    slider.style.setProperty("--at", `${range.value}%`);
    range.setAttribute("aria-valuetext", `${range.value} % before restoration`);
  };
  // The range input handles the keyboard. Pointers move it from anywhere, as its thumb is hard to hit with a finger.
  const follow = (event) => {
    const box = slider.getBoundingClientRect();
    range.value = 100 * (event.clientX - box.left) / box.width;
    show();
  };
  range.addEventListener("input", show);
  slider.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    slider.setPointerCapture(event.pointerId);
    range.focus({ preventScroll: true });
    follow(event);
  });
  slider.addEventListener("pointermove", (event) => {
    if (slider.hasPointerCapture(event.pointerId)) follow(event);
  });
  show();
}

const groups = document.getElementById("groups");
if (groups) {
  const { patch, columns, tiles, width, height, references } = JSON.parse(groups.dataset.groups);
  const [patchHeight, patchWidth] = patch;
  const sprite = document.getElementById("sprite");
  const list = document.getElementById("features");
  const chosen = groups.querySelector(".chosen");
  let at = Math.floor(references.length / 2 + columns / 2);
  // One tile of the picture that has them all, with its caption.
  const tile = (column, caption) => {
    const item = document.createElement("li");
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [patchWidth, patchHeight];
    const left = ((at % columns) * tiles + column) * patchWidth;
    const top = Math.floor(at / columns) * patchHeight;
    canvas.getContext("2d").drawImage(sprite, left, top, patchWidth, patchHeight, 0, 0, patchWidth, patchHeight);
    const figures = document.createElement("div");
    figures.className = "figures";
    figures.textContent = caption;
    item.append(canvas, figures);
    return item;
  };
  const show = () => {
    const { y, x, count, shares } = references[at];
    const percent = (share) => `${(100 * share).toFixed(1)}%`;
    list.replaceChildren(tile(0, "mean"), ...shares.map((share, index) => tile(index + 1, percent(share))));
    const box = { left: x / width, top: y / height, width: patchWidth / width, height: patchHeight / height };
    for (const [name, share] of Object.entries(box)) chosen.style[name] = `${100 * share}%`;
    const more = count > shares.length ? `, of which the ${shares.length} strongest are shown` : "";
    const features = `${count} feature${count === 1 ? "" : "s"}${more}`;
    const said = `The patch whose upper left pixel is in row ${y} and column ${x}: ${features}.`;
    document.getElementById("group").textContent = spoken.textContent = said;
  };
  groups.addEventListener("click", (event) => {
    const frame = groups.getBoundingClientRect();
    const x = width * (event.clientX - frame.left) / frame.width - patchWidth / 2;
    const y = height * (event.clientY - frame.top) / frame.height - patchHeight / 2;
    const distances = references.map((reference) => (reference.y - y) ** 2 + (reference.x - x) ** 2);
    at = distances.indexOf(Math.min(...distances));
    show();
  });
  groups.addEventListener("keydown", (event) => {
    const [row, column] = [Math.floor(at / columns), at % columns];
    const [down, right] = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
    }[event.key] ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    const within = (place, count) => Math.min(count - 1, Math.max(0, place));
    at = within(row + down, references.length / columns) * columns + within(column + right, columns);
    show();
  });
  sprite.decode().then(show);
}

const gallery = document.getElementById("gallery");
for (const button of document.querySelectorAll("button[data-sort]")) {
  button.addEventListener("click", () => {
    const key = button.dataset.sort;
    const sign = key === "index" ? 1 : -1;
    const items = [...gallery.children];
    items.sort((a, b) => sign * (a.dataset[key] - b.dataset[key]) || a.dataset.index - b.dataset.index);
    gallery.replaceChildren(...items);
    gallery.dataset.by = key;
    for (const other of document.querySelectorAll("button[data-sort]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    spoken.textContent = `Sorted by ${key}`;
  });
}

const copy = document.getElementById("copy");
if (copy) {
  const command = document.getElementById("command");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      spoken.textContent = copy.textContent = "Copied";
    } catch {
      // Browsers may refuse this to a local file. Then the command is selected, so that one key copies it.
      getSelection().selectAllChildren(command);
      spoken.textContent = copy.textContent = "Selected";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  });
}

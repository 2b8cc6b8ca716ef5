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

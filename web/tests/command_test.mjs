// The command that a view names makes it: run in a terminal it gives the explanation that the view shows.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { open_file } from "./browser.mjs";
import { program, root } from "./program.mjs";

const folder = mkdtempSync(join(tmpdir(), "qkv-command-"));
after(() => rmSync(folder, { recursive: true }));
const in_terminal = (words) =>
  spawnSync("bash", ["-c", `exec "$0" ${words}`, program], { cwd: folder, encoding: "utf8", maxBuffer: 1 << 30 });

writeFileSync(join(folder, "array.csv"), Array.from({ length: 70 }, (_, i) => `${i % 7},${i % 5},${i % 3},1`).join("\n"));
const kText = `"Don't cry"`; // quotes that a shell takes away
const kReports = [
  ["explain --score scaled-dot --html r.html", ["", "step=5&query=1"], "steps"],
  [`explain --text '${kText.replaceAll("'", "'\\''")}' --html r.html`, ["view=translation&token=1", "view=model"], "heads"],
  [`explain --text '${kText.replaceAll("'", "'\\''")}' --html r.html`, ["view=heads&attention=encoder&head=1.2"], "head"],
  [`translate --explain --html r.html '${kText.replaceAll("'", "'\\''")}'`, ["view=heads&attention=encoder_decoder&head=0.1"], "head"],
  ["explain --text Thanks --attention encoder --layer 0 --head 1 --html r.html", ["", "token=0"], "head"],
  ["explain --text Thanks --token 0 --html r.html", [""], "token"],
  ["attend --query array.csv --key array.csv --value array.csv --html r.html --out out.npy", [""], null],
];

for (const [words, views, kind] of kReports) {
  test(`qkv ${words}: ${views.map((view) => view || "the first view").join(", ")}`, async () => {
    const made = in_terminal(words);
    assert.equal(made.status, 0, made.stderr);
    for (const view of views) {
      const { page, close } = await open_file(join(folder, "r.html"), { hash: `#${view}` });
      const command = await page.locator("footer code").first().textContent();
      assert.match(command, /^qkv /);
      const plain = command.replace(/^qkv /, "").replace(/ --html \S+/, "");
      const { status, stdout, stderr } = in_terminal(kind ? `${plain} --json` : plain);
      assert.equal(status, 0, `${command}: ${stderr}`);
      if (kind) {
        const said = JSON.parse(stdout.split("\n")[0]);
        assert.equal(said.kind, kind);
        const at = new URLSearchParams(view);
        const [layer, head] = (at.get("head") ?? "").split(".").map(Number);
        if (at.has("head")) assert.deepEqual([said.layer, said.head], [layer, head]);
        if (kind === "head" && at.has("token")) assert.equal(said.token, Number(at.get("token")));
      }
      await close();
    }
  });
}

test("a picture: the command of a head of it", async () => {
  const pixels = Buffer.from(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAARUlEQVR42j3DQQ0AMQgAwZVQCUhAAhKQgIRKQEIlIAUpSKiES/q4SQZ+S9Q8NohFVg9onL7iYNkvXtfOKERLjhXs8dZaH3hmFgF585FqAAAAAElFTkSuQmCC",
    "base64",
  );
  writeFileSync(join(folder, "digit.png"), pixels);
  const made = in_terminal(`explain --model ${root}models/digits --image digit.png --html r.html`);
  if (made.status !== 0) return assert.fail(made.stderr);
  const { page, close } = await open_file(join(folder, "r.html"), { hash: "#head=0.1" });
  const command = (await page.locator("footer code").first().textContent()).replace(/^qkv /, "").replace(/ --html \S+/, "");
  assert.match(command, /--layer 0 --head 1/);
  const { status, stderr } = in_terminal(`${command} --json`);
  assert.equal(status, 0, stderr);
  await close();
});

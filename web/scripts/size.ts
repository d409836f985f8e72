// Fails if what a first visit loads is larger than 250 kB when compressed.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const LIMIT = 250_000;
const build = new URL("../build/", import.meta.url).pathname;

interface Chunk {
  file: string;
  imports?: string[];
  css?: string[];
}

/** What the page itself names, and everything that is imported by it. */
function firstLoad(): Set<string> {
  const page = readFileSync(join(build, "index.html"), "utf8");
  const files = new Set([...page.matchAll(/["']\/?(_app\/[^"']+\.(?:js|css))["']/g)].map((match) => match[1] ?? ""));
  // The overview is the first page that most people see: its chunk and layouts count as well.
  const manifest = JSON.parse(
    readFileSync(new URL("../.svelte-kit/output/client/.vite/manifest.json", import.meta.url), "utf8"),
  ) as Record<string, Chunk>;
  const wanted = Object.entries(manifest).filter(([name]) => FIRST.some((node) => name.includes(node)));
  const queue = wanted.map(([name]) => name);
  const seen = new Set<string>();
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    const chunk = manifest[name];
    if (!chunk || seen.has(name)) continue;
    seen.add(name);
    files.add(chunk.file);
    for (const sheet of chunk.css ?? []) files.add(sheet);
    queue.push(...(chunk.imports ?? []));
  }
  return files;
}

/** The nodes of the first page: both layouts, the error page, and the overview. */
const FIRST = ["runtime/client/entry.js", "generated/client-optimized/app.js", ...["0", "1", "2"].map((n) => `client-optimized/nodes/${n}.js`), overviewNode()];

function overviewNode(): string {
  const nodes = new URL("../.svelte-kit/generated/client-optimized/nodes/", import.meta.url).pathname;
  const found = readdirSync(nodes).find((name) => readFileSync(join(nodes, name), "utf8").includes("/orgs/[org]/+page.svelte"));
  if (!found) throw new Error("the overview is not in the build: run `npm run build` first");
  return `client-optimized/nodes/${found}`;
}

let total = gzipSync(readFileSync(join(build, "index.html"))).length;
for (const file of firstLoad()) total += gzipSync(readFileSync(join(build, file))).length;
const text = `first load: ${(total / 1000).toFixed(1)} kB gzipped, of ${LIMIT / 1000} kB`;
console.log(text);
if (total > LIMIT) process.exitCode = 1;

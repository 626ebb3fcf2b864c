// Fails when what the built page loads at first is larger than its budget: npm run size. Chunks that
// come later are told but not counted.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const budgets = { '.js': 120_000, '.css': 20_000 };
const dist = fileURLToPath(new URL('../dist/', import.meta.url));
const files = readdirSync(`${dist}assets`);
const first = new Set();

/** A file of the first load, and what it imports statically. */
function take(name) {
  if (first.has(name)) return;
  first.add(name);
  const text = readFileSync(`${dist}assets/${name}`, 'utf8');
  for (const [, other] of text.matchAll(/(?:from|import)\s*"\.\/([\w.-]+)"/g)) take(other);
}

const page = readFileSync(`${dist}index.html`, 'utf8');
for (const [, name] of page.matchAll(/(?:src|href)="\.\/assets\/([^"]+)"/g)) take(name);
for (const name of files.filter((each) => each.startsWith('worker'))) take(name);

let failed = false;
for (const [ending, budget] of Object.entries(budgets)) {
  let total = 0;
  for (const file of files.filter((name) => name.endsWith(ending))) {
    const size = gzipSync(readFileSync(`${dist}assets/${file}`), { level: 9 }).length;
    if (first.has(file)) total += size;
    console.log(`${file}: ${size} bytes gzipped${first.has(file) ? '' : ', loaded later'}`);
  }
  failed ||= total > budget;
  console.log(`${ending}: ${total} of ${budget} bytes${total > budget ? ', too large' : ''}`);
}
process.exitCode = failed ? 1 : 0;

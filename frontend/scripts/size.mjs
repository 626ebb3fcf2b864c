// Fails when the built page is larger than its budget: npm run size. What is loaded later, the
// making of files, is told but not counted.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const budgets = { '.js': 120 * 1024, '.css': 20 * 1024 };
const folder = fileURLToPath(new URL('../dist/assets/', import.meta.url));
const files = readdirSync(folder);
const later = /^exports-/;
let failed = false;
for (const [ending, budget] of Object.entries(budgets)) {
  let total = 0;
  for (const file of files.filter((name) => name.endsWith(ending))) {
    const size = gzipSync(readFileSync(folder + file), { level: 9 }).length;
    if (!later.test(file)) total += size;
    console.log(`${file}: ${size} bytes gzipped${later.test(file) ? ', loaded later' : ''}`);
  }
  failed ||= total > budget;
  console.log(`${ending}: ${total} of ${budget} bytes${total > budget ? ', too large' : ''}`);
}
process.exitCode = failed ? 1 : 0;

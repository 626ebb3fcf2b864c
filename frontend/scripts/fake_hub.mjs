// Serves dist/ with a synthetic run, to work on the page without a trainer: npm run dev:fake
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const { module } = await runnerImport(here('../e2e/fake_hub.ts'), { configFile: false });
const hub = new module.FakeHub({
  dist: here('../dist'),
  port: 8765,
  intervalMs: 400,
  firstStep: 40,
});
await hub.start();
console.log(hub.url);

import 'uplot/dist/uPlot.min.css';
import './app.css';
import './ui/controls.css';

import { mount, tick } from 'svelte';
import AppView from './app.svelte';
import { App } from './core/page/app.svelte';
import { isLoading, loaded } from './core/registry/chunks';
import { registerFeatures } from './core/registry/registry';
import { kFeatures } from './features/page';

/** The interface of the page for end-to-end tests. */
export interface TestHandle {
  idle(): Promise<void>;
  readonly app: App;
}

declare global {
  interface Window {
    __tt?: TestHandle;
  }
}

registerFeatures(kFeatures);
const kWorker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
const kApp = new App(kWorker);
const kTarget = document.getElementById('app');
if (kTarget === null) throw new Error('no #app element');
mount(AppView, { target: kTarget, props: { app: kApp } });

async function idle(): Promise<void> {
  do {
    await loaded();
    await tick();
    await kApp.idle();
    // The data that has arrived may need a chunk.
  } while (isLoading());
}

window.__tt = { idle, app: kApp };
void kApp.signIn.begin();

import 'uplot/dist/uPlot.min.css';
import './app.css';

import { mount } from 'svelte';
import AppView from './app.svelte';
import { App } from './state/app.svelte';

/** What end-to-end tests may ask of the page. */
export interface TestHandle {
  idle(): Promise<void>;
  readonly app: App;
}

declare global {
  interface Window {
    __tt?: TestHandle;
  }
}

const kApp = new App();
const kTarget = document.getElementById('app');
if (kTarget === null) throw new Error('no #app element');
mount(AppView, { target: kTarget, props: { app: kApp } });
window.__tt = { idle: () => kApp.idle(), app: kApp };
void kApp.signIn.begin();

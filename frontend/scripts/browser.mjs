import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WebSocket } from 'ws';

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A bare client of the browser: Playwright would have every frame of the socket sent to it. */
export class Browser {
  async launch() {
    this.folder = mkdtempSync(join(tmpdir(), 'measure-page-'));
    this.child = spawn(process.env['TT_CHROMIUM'] ?? '/usr/bin/chromium', [
      ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
      ...['--remote-debugging-port=0', `--user-data-dir=${this.folder}`, 'about:blank'],
    ]);
    const url = await new Promise((resolve) => {
      let text = '';
      this.child.stderr.on('data', (part) => {
        text += part;
        const found = /listening on (ws:\S+)/.exec(text);
        if (found !== null) resolve(found[1]);
      });
    });
    this.waiting = new Map();
    this.socket = new WebSocket(url, { perMessageDeflate: false });
    this.socket.on('message', (data) => {
      const { id, result, error } = JSON.parse(data);
      this.waiting.get(id)?.(
        error === undefined ? result : Promise.reject(new Error(error.message)),
      );
      this.waiting.delete(id);
    });
    await once(this.socket, 'open');
  }

  send(method, params = {}, sessionId = undefined) {
    const id = (this.lastId = (this.lastId ?? 0) + 1);
    this.socket.send(JSON.stringify({ id, method, params, sessionId }));
    return new Promise((resolve) => this.waiting.set(id, resolve));
  }

  async close() {
    const gone = once(this.child, 'exit');
    await this.send('Browser.close');
    await gone;
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

export class Page {
  constructor(browser) {
    this.browser = browser;
  }

  /** `before` runs in the page before everything else. */
  async open(url, before) {
    const { targetId } = await this.browser.send('Target.createTarget', { url: 'about:blank' });
    const attached = { targetId, flatten: true };
    ({ sessionId: this.session } = await this.browser.send('Target.attachToTarget', attached));
    const size = { width: 1280, height: 720, deviceScaleFactor: 1, mobile: false };
    await this.send('Emulation.setDeviceMetricsOverride', size);
    await this.send('Page.enable');
    if (before !== undefined) {
      await this.send('Page.addScriptToEvaluateOnNewDocument', { source: `(${before})()` });
    }
    await this.send('Page.navigate', { url });
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  async evaluate(expression) {
    const how = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', how);
    if (exceptionDetails !== undefined) throw new Error(exceptionDetails.text);
    return result.value;
  }

  async until(expression) {
    while (!(await this.evaluate(expression))) await sleep(50);
  }

  close() {
    return this.send('Page.close');
  }
}

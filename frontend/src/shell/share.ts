import type { App } from '../core/page/app.svelte';
import { formatViewState } from '../core/session/url_state';

/** The address of the shown view, independent of the reader's preferences. It never has the token. */
export function linkOf(app: App): string {
  return location.origin + location.pathname + formatViewState(app.view, null);
}

export async function copyLink(app: App): Promise<void> {
  const done = await copyText(linkOf(app));
  app.control.error = null;
  app.control.notice = done ? 'Link copied' : 'The browser does not allow copying';
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

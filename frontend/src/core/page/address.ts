import { untrack } from 'svelte';
import { preferredView } from '../session/preferences';
import { formatViewState, type ViewState } from '../session/url_state';

// Browsers refuse more than about 200 changes of the address in 30 s; a slider makes more.
const kDelayMs = 150;

/** Writes the view into the page's address: the first change at once, later ones with a short delay. */
export class Address {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isPending = false;

  constructor(private readonly view: () => ViewState) {}

  /** To be called after each change of the view. */
  changed(): void {
    this.isPending = true;
    if (this.timer === undefined) this.flush();
  }

  /** Writes a pending change now. */
  flush(): void {
    if (!this.isPending) return;
    this.isPending = false;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.flush();
    }, kDelayMs);
    // Who changes the view while a component is built does not depend on the whole view.
    const query = untrack(() => formatViewState(this.view(), preferredView()));
    history.replaceState(null, '', location.pathname + query + location.hash);
  }
}

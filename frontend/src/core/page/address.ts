import { preferredView } from '../session/preferences';
import { formatViewState, type ViewState } from '../session/url_state';

// Browsers refuse more than some 200 changes of the address in 30 s; a slider makes more.
const kDelayMs = 150;

/** Keeps the page's address as the view is, a little later. */
export class Address {
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly view: () => ViewState) {}

  /** The view was changed. */
  changed(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), kDelayMs);
  }

  /** Writes now what is still to be written. */
  flush(): void {
    if (this.timer !== undefined) this.write();
  }

  private write(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const query = formatViewState(this.view(), preferredView());
    history.replaceState(null, '', location.pathname + query + location.hash);
  }
}

import { preferredView } from '../session/preferences';
import { formatViewState, type ViewState } from '../session/url_state';

// Browsers refuse more than about 200 changes of the address in 30 s; a slider makes more.
const kDelayMs = 150;

/** Writes the view into the page's address, with a short delay. */
export class Address {
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly view: () => ViewState) {}

  /** To be called after each change of the view. */
  changed(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), kDelayMs);
  }

  /** Writes a pending change now. */
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

import { toDisposable, type Disposable } from '../../base/disposable';
import type { Theme } from './theme';
import { kThemeChoices, preferredTheme, rememberTheme, type ThemeChoice } from './preferences';

const kDarkQuery = '(prefers-color-scheme: dark)';

/** The theme, light or dark: that of the system, unless the user has chosen one. */
export class ThemeSwitch {
  choice = $state<ThemeChoice>(preferredTheme());
  private systemIsDark = $state(false);
  readonly shown: Theme = $derived.by(() => {
    if (this.choice !== 'auto') return this.choice;
    return this.systemIsDark ? 'dark' : 'light';
  });

  /** Follows the system; `changed` redraws the parts that style sheets do not colour. */
  start(changed: () => void): Disposable {
    const dark = matchMedia(kDarkQuery);
    const apply = (): void => {
      this.systemIsDark = dark.matches;
      changed();
    };
    dark.addEventListener('change', apply);
    apply();
    applyChoice(this.choice);
    return toDisposable(() => dark.removeEventListener('change', apply));
  }

  next(): void {
    const at = kThemeChoices.indexOf(this.choice);
    this.choice = kThemeChoices[(at + 1) % kThemeChoices.length];
    rememberTheme(this.choice);
    applyChoice(this.choice);
  }
}

/** Switches the media rules for dark on or off, so that the style sheets name each colour only once. */
function applyChoice(choice: ThemeChoice): void {
  document.documentElement.style.colorScheme = choice === 'auto' ? '' : choice;
  for (const rule of darkRules()) {
    rule.media.mediaText = choice === 'auto' ? kDarkQuery : choice === 'dark' ? 'all' : 'not all';
  }
}

let known: readonly CSSMediaRule[] | undefined;

function darkRules(): readonly CSSMediaRule[] {
  known ??= [...document.styleSheets]
    .flatMap((sheet) => [...sheet.cssRules])
    .filter((rule) => rule instanceof CSSMediaRule)
    .filter((rule) => /prefers-color-scheme:\s*dark/.test(rule.media.mediaText));
  return known;
}

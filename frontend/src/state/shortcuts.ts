/** What the keyboard can do; the sheet of shortcuts is made from this list. */
export const kShortcuts = [
  {
    action: 'pause',
    keys: ['Space'],
    match: [' '],
    text: 'Pause or continue training, for everybody',
  },
  { action: 'step', keys: ['.'], match: ['.'], text: 'Train one step, then pause' },
  { action: 'layer-up', keys: ['↑'], match: ['ArrowUp', 'k'], text: 'Layer above' },
  { action: 'layer-down', keys: ['↓'], match: ['ArrowDown', 'j'], text: 'Layer below' },
  { action: 'point-previous', keys: ['['], match: ['['], text: 'Previous trace point' },
  { action: 'point-next', keys: [']'], match: [']'], text: 'Next trace point' },
  { action: 'step-back', keys: ['←'], match: ['ArrowLeft', 'h'], text: 'One captured step back' },
  { action: 'step-forward', keys: ['→'], match: ['ArrowRight', 'l'], text: 'One captured step on' },
  { action: 'follow', keys: ['f'], match: ['f'], text: 'Follow the newest step' },
  { action: 'hold', keys: ['p'], match: ['p'], text: 'Hold the view; training goes on' },
  { action: 'aggregate', keys: ['a'], match: ['a'], text: 'Mean or largest |x| over the tiles' },
  { action: 'tab', keys: ['1', '…', '5'], match: ['1', '2', '3', '4', '5'], text: 'Go to a view' },
  { action: 'help', keys: ['?'], match: ['?'], text: 'This sheet' },
] as const;

export type Action = (typeof kShortcuts)[number]['action'];

/** The action of a key press; none while the user types or a control wants the key for itself. */
export function shortcut(event: KeyboardEvent): Action | undefined {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return undefined;
  const target = event.target;
  if (target instanceof HTMLElement) {
    if (target.isContentEditable || target.closest('dialog[open]') !== null) return undefined;
    const tag = target.tagName;
    if (tag === 'TEXTAREA' || tag === 'SELECT' || tag === 'INPUT') return undefined;
    if (event.key === ' ' && (tag === 'BUTTON' || tag === 'SUMMARY' || tag === 'A'))
      return undefined;
  }
  return kShortcuts.find(({ match }) => (match as readonly string[]).includes(event.key))?.action;
}

import type { App } from '../core/session/app.svelte';
import type { Controller } from '../core/session/controller.svelte';
import { exportView, hasNumbers, kFormats } from '../features/export/export_formats';
import { copyLink } from './share';
import { kTabs } from '../core/session/tabs';
import { layerName } from '../core/session/watched';

export const kGroups = ['Run', 'Go to', 'Step', 'Show', 'File', 'Help'] as const;

/** Something that the page can do: by the palette, and by a key if it has one. */
export interface Command {
  readonly id: string;
  readonly group: (typeof kGroups)[number];
  readonly text: string;
  /** Keys as the sheet of shortcuts shows them, and their names in events. */
  readonly keys?: readonly string[];
  readonly match?: readonly string[];
  /** Said where it cannot be done now. */
  readonly hindrance?: string;
  readonly run: () => void;
}

/** What only the shell of the page can do. */
export interface PageActions {
  help(): void;
  palette(): void;
}

/** All that the page can do now; the keyboard, its sheet and the palette share this list. */
export function commandsOf(app: App, page: PageActions): readonly Command[] {
  return [
    ...runCommands(app),
    ...interventionCommands(app),
    ...tabCommands(app),
    ...stepCommands(app),
    ...placeCommands(app),
    ...switchCommands(app),
    ...curveCommands(app),
    ...fileCommands(app),
    {
      id: 'palette',
      group: 'Help',
      text: 'Find a command',
      keys: ['Ctrl', 'K'],
      run: () => page.palette(),
    },
    {
      id: 'help',
      group: 'Help',
      text: 'Keyboard shortcuts',
      keys: ['?'],
      match: ['?'],
      run: () => page.help(),
    },
  ];
}

function runCommands(app: App): readonly Command[] {
  const { control, paused } = app;
  const hindrance = hindranceOf(control);
  return [
    {
      id: 'pause',
      group: 'Run',
      text: paused ? 'Continue the run, for everybody' : 'Pause the run, for everybody',
      keys: ['Space'],
      match: [' '],
      hindrance,
      run: () => void (app.paused ? control.resume() : control.pause()),
    },
    {
      id: 'step',
      group: 'Run',
      text: 'Train one step, then pause',
      keys: ['.'],
      match: ['.'],
      hindrance,
      run: () => void control.step(),
    },
    leaseCommand(control),
  ];
}

function hindranceOf({ viewOnly, others, holder }: Controller): string | undefined {
  if (viewOnly) return 'this token only views';
  return others ? `${holder?.name ?? 'another'} holds control` : undefined;
}

function leaseCommand(control: Controller): Command {
  const group = 'Run';
  if (control.mine) {
    return { id: 'release', group, text: 'Release control', run: () => void control.release() };
  }
  const { others, holder, viewOnly } = control;
  return {
    id: 'claim',
    group,
    text: others ? `Take over control from ${holder?.name ?? ''}` : 'Claim control',
    hindrance: viewOnly ? hindranceOf(control) : undefined,
    run: () => void control.claim(others),
  };
}

function interventionCommands({ control, interventions, replay }: App): readonly Command[] {
  const { programs } = interventions;
  const hindrance = replay === null ? hindranceOf(control) : 'a recording runs nothing';
  const revert = (id: string, what: string, name?: string): Command => ({
    ...{ id, text: `Revert ${what}`, hindrance },
    group: 'Run',
    run: () => void interventions.revert(name),
  });
  const each = programs.map(({ name }) =>
    revert(`revert-program-${name}`, `intervention ${name}`, name),
  );
  return programs.length === 0 ? [] : [revert('revert-all', 'all interventions'), ...each];
}

function tabCommands(app: App): readonly Command[] {
  return kTabs.map(({ tab, name }, index) => ({
    id: `tab-${tab}`,
    group: 'Go to',
    text: `Go to ${name}`,
    keys: [String(index + 1)],
    match: [String(index + 1)],
    run: () => app.show({ tab }),
  }));
}

function stepCommands(app: App): readonly Command[] {
  return [
    {
      id: 'step-back',
      group: 'Step',
      text: 'One captured step back',
      keys: ['←'],
      match: ['ArrowLeft', 'h'],
      run: () => app.moveStep(-1),
    },
    {
      id: 'step-forward',
      group: 'Step',
      text: 'One captured step on',
      keys: ['→'],
      match: ['ArrowRight', 'l'],
      run: () => app.moveStep(1),
    },
    {
      id: 'follow',
      group: 'Step',
      text: 'Follow the newest step',
      keys: ['f'],
      match: ['f'],
      run: () => app.follow(),
    },
    {
      id: 'hold',
      group: 'Step',
      text: app.view.hold === null ? 'Hold the view; training goes on' : 'Release the held view',
      keys: ['p'],
      match: ['p'],
      run: () => app.toggleHold(),
    },
  ];
}

function placeCommands(app: App): readonly Command[] {
  const moves: readonly Command[] = [
    {
      id: 'layer-up',
      group: 'Show',
      text: 'Layer above',
      keys: ['↑'],
      match: ['ArrowUp', 'k'],
      run: () => app.moveLayer(-1),
    },
    {
      id: 'layer-down',
      group: 'Show',
      text: 'Layer below',
      keys: ['↓'],
      match: ['ArrowDown', 'j'],
      run: () => app.moveLayer(1),
    },
    {
      id: 'point-previous',
      group: 'Show',
      text: 'Previous trace point',
      keys: ['['],
      match: ['['],
      run: () => app.movePoint(-1),
    },
    {
      id: 'point-next',
      group: 'Show',
      text: 'Next trace point',
      keys: [']'],
      match: [']'],
      run: () => app.movePoint(1),
    },
  ];
  return [...moves, ...chosenPlaces(app)];
}

/** Every point, layer, row, head and vector by its name. */
function chosenPlaces(app: App): readonly Command[] {
  const { frame, point } = app;
  const show = (id: string, text: string, run: () => void): Command => ({
    ...{ id, text, run },
    group: 'Show',
  });
  const heads = frame?.kind === 'attention' ? frame.heads : 0;
  const vectors = point?.form === 'projection' ? (point.compressor.vectors ?? []) : [];
  const rows = frame?.rowNames ?? [];
  return [
    ...app.points.map(({ name }) =>
      show(`point-${name}`, `Point ${name}`, () => app.choosePoint(name)),
    ),
    ...app.layerChoices.map((layer) =>
      show(`layer-${layer}`, layerName(layer, point?.facts.name ?? '', 'Layer '), () =>
        app.show({ layer }),
      ),
    ),
    ...Array.from({ length: heads }, (_, head) =>
      show(`head-${head}`, `Head ${head}`, () => app.show({ head })),
    ),
    ...vectors.map((name, vector) =>
      show(`vector-${vector}`, `Vector ${name}`, () => app.show({ vector, layerLock: null })),
    ),
    ...(rows.length < 2 ? [] : rows).map((name, row) =>
      show(`row-${row}`, `${frame?.rowKind === 'prompt' ? 'Prompt' : 'Row'} ${name}`, () =>
        app.show({ row }),
      ),
    ),
  ];
}

function change(app: App, id: string, text: string, to: Parameters<App['show']>[0]): Command {
  return { ...{ id, text }, group: 'Show', run: () => app.show(to) };
}

function switchCommands(app: App): readonly Command[] {
  const { view } = app;
  return [
    {
      id: 'aggregate',
      group: 'Show',
      text: view.aggregate === 'mean' ? 'Cells: largest |x| of the tiles' : 'Cells: mean of tiles',
      keys: ['a'],
      match: ['a'],
      run: () =>
        app.show({ aggregate: view.aggregate === 'mean' ? 'absmax' : 'mean', layerLock: null }),
    },
    change(app, 'clip', view.clip99 ? 'Scale: full' : 'Scale: 99 % of the values', {
      clip99: !view.clip99,
    }),
    change(app, 'phase', view.phase === 'train' ? 'Phase: eval' : 'Phase: train', {
      phase: view.phase === 'train' ? 'eval' : 'train',
    }),
    change(
      app,
      'over',
      view.over === 'last' ? 'Projection: mean of tokens' : 'Projection: last token',
      {
        over: view.over === 'last' ? 'mean' : 'last',
      },
    ),
    ...(['mean', 'std', 'norm', 'bad'] as const).map((stat) =>
      change(
        app,
        `stat-${stat}`,
        `Statistic: ${stat === 'bad' ? 'numbers that are not finite' : stat}`,
        {
          stat,
        },
      ),
    ),
    change(app, 'unlock', 'Unlock the scales', { layerLock: null, tileLock: null }),
  ];
}

function curveCommands(app: App): readonly Command[] {
  const { view } = app;
  return [
    change(app, 'log-loss', view.logLoss ? 'Loss: linear axis' : 'Loss: logarithmic axis', {
      logLoss: !view.logLoss,
    }),
    change(app, 'events', view.events ? 'Curves: hide events' : 'Curves: show events', {
      events: !view.events,
    }),
    change(app, 'zoom', 'Curves: all steps', { zoom: null }),
    change(app, 'log-x', view.logX ? 'Steps: linear axis' : 'Steps: logarithmic axis', {
      logX: !view.logX,
    }),
    {
      id: 'theme',
      group: 'Show',
      text: `Theme: another than ${app.themes.choice}`,
      run: () => app.themes.next(),
    },
    change(app, 'log-grad', view.logGrad ? 'Gradient: linear axis' : 'Gradient: logarithmic axis', {
      logGrad: !view.logGrad,
    }),
  ];
}

function fileCommands(app: App): readonly Command[] {
  return [
    { id: 'link', group: 'File', text: 'Copy link to this view', run: () => void copyLink(app) },
    ...kFormats.map(({ format, name, text }) => ({
      id: `export-${format}`,
      group: 'File' as const,
      text: `Export ${name}: ${text}`,
      hindrance: format === 'png' || hasNumbers(app) ? undefined : 'this view shows no numbers',
      run: () => void exportView(app, format),
    })),
  ];
}

/** "step 300", "b step 40": what is typed with its own number. */
export function typedCommand(app: App, typed: string): Command | undefined {
  const match = /^\s*(?:go to\s+)?([ab]\s+)?step\s+(\d{1,15})\s*$/i.exec(typed);
  const step = Number(match?.[2] ?? 0);
  if (match === null || step < 1) return undefined;
  const side = match[1]?.trim().toLowerCase() === 'b' ? 'B' : 'A';
  const named = match[1] === undefined ? '' : `${side}: `;
  const about = { id: `step-${step}`, group: 'Step' as const, text: `${named}Show step ${step}` };
  return { ...about, run: () => app.comparison.choose(side, { step }) };
}

const kScrollKeys = /^( |Arrow|Page|Home|End)/;

/** Whether a key press is for the page, and not for what the user types or a control does. */
export function isForPage(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
  const target = event.target;
  if (!(target instanceof HTMLElement)) return true;
  if (target.isContentEditable || target.closest('dialog[open], [role="menu"]') !== null) {
    return false;
  }
  const tag = target.tagName;
  if (tag === 'TEXTAREA' || tag === 'SELECT' || tag === 'INPUT') return false;
  if (kScrollKeys.test(event.key) && /auto|scroll/.test(getComputedStyle(target).overflow)) {
    return false;
  }
  return !(event.key === ' ' && (tag === 'BUTTON' || tag === 'SUMMARY' || tag === 'A'));
}

import type { App } from '../core/page/app.svelte';
import { type Command, kGroups, showCommand } from '../core/registry/commands';
import { features } from '../core/registry/registry';
import { checkpointNow, mayCheckpoint } from '../core/session/checkpoint';
import { type Controller, hindranceOf } from '../core/session/controller.svelte';
import { tabFacts } from '../core/session/tabs';
import { layerName } from '../core/session/watched';
import { clipText, kClips } from '../core/store/map_data';
import { copyLink } from './share';

/** The actions that only the shell of the page can carry out. */
export interface PageActions {
  help(): void;
  palette(): void;
}

/** All current commands, by group. The keyboard, the help sheet and the palette share this list. */
export function commandsOf(app: App, page: PageActions): readonly Command[] {
  const all: readonly Command[] = [
    ...runCommands(app),
    ...tabCommands(app),
    ...stepCommands(app),
    ...placeCommands(app),
    ...switchCommands(app),
    { id: 'link', group: 'File', text: 'Copy link to this view', run: () => void copyLink(app) },
    ...features().flatMap((feature) => feature.commandsOf?.(app) ?? []),
    ...helpCommands(page),
  ];
  return kGroups.flatMap((group) => all.filter((each) => each.group === group));
}

function helpCommands(page: PageActions): readonly Command[] {
  return [
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
  // In a replay, the keys work for every viewer, because they stop no training.
  const keyOfHolder = app.replay === null;
  const pause: Pick<Command, 'text' | 'run'> =
    app.runState?.phase === 'waiting'
      ? { text: 'Start the run', run: () => void control.start() }
      : {
          text: paused ? 'Continue the run, for everybody' : 'Pause the run, for everybody',
          run: () => void (app.paused ? control.resume() : control.pause()),
        };
  return [
    {
      id: 'pause',
      group: 'Run',
      keys: ['Space'],
      match: [' '],
      hindrance,
      keyOfHolder,
      ...pause,
    },
    {
      id: 'step',
      group: 'Run',
      text: 'Train one step, then pause',
      keys: ['.'],
      match: ['.'],
      hindrance,
      keyOfHolder,
      run: () => void control.step(),
    },
    ...checkpointCommands(app),
    leaseCommand(control),
  ];
}

function checkpointCommands(app: App): readonly Command[] {
  if (!mayCheckpoint(app)) return [];
  const about = { id: 'checkpoint', group: 'Run' as const, text: 'Checkpoint now' };
  return [{ ...about, hindrance: hindranceOf(app.control), run: () => void checkpointNow(app) }];
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

function tabCommands(app: App): readonly Command[] {
  return tabFacts().map(({ tab, name }, index) => ({
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
      text: 'One captured step forward',
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
      text: app.view.hold === null ? 'Hold the view; training continues' : 'Release the held view',
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

/** A command for each point, layer and row, by its name. */
function chosenPlaces(app: App): readonly Command[] {
  const { frame, point } = app;
  const show = (id: string, text: string, run: () => void): Command => ({
    ...{ id, text, run },
    group: 'Show',
  });
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
    ...(rows.length < 2 ? [] : rows).map((name, row) =>
      show(`row-${row}`, `${frame?.rowKind === 'prompt' ? 'Prompt' : 'Row'} ${name}`, () =>
        app.show({ row }),
      ),
    ),
  ];
}

function switchCommands(app: App): readonly Command[] {
  const { view } = app;
  return [
    ...kClips
      .filter((clip) => clip !== view.clip)
      .map((clip) => showCommand(app, `clip-${clip}`, `Scale: ${clipText(clip)}`, { clip })),
    showCommand(app, 'phase', view.phase === 'train' ? 'Phase: eval' : 'Phase: train', {
      phase: view.phase === 'train' ? 'eval' : 'train',
    }),
    showCommand(app, 'unlock', 'Unlock the scales', { layerLock: null, tileLock: null }),
    {
      id: 'theme',
      group: 'Show',
      text: `Theme: change from ${app.themes.choice}`,
      run: () => app.themes.next(),
    },
  ];
}

/** The command for a typed text with a number, such as "step 300". */
export function typedCommand(app: App, typed: string): Command | undefined {
  const match = /^\s*(?:go to\s+)?step\s+(\d{1,15})\s*$/i.exec(typed);
  const step = Number(match?.[1] ?? 0);
  if (step >= 1) {
    const about = { id: `step-${step}`, group: 'Step' as const, text: `Show step ${step}` };
    return { ...about, run: () => app.show({ step }) };
  }
  for (const feature of features()) {
    const command = feature.typedCommand?.(app, typed);
    if (command !== undefined) return command;
  }
  return undefined;
}

/** Runs the command of a pressed key, or shows the reason why the key does nothing. */
export function pressed(app: App, { keys = [], keyOfHolder = false, run }: Command): void {
  const { control } = app;
  if (!keyOfHolder || control.mine) {
    run();
    return;
  }
  const reason = hindranceOf(control);
  const only = `${keys.join(' ')} works only for the holder of control`;
  app.toasts.say({
    ...{ key: 'key', text: reason === undefined ? only : `${only}: ${reason}`, tone: 'warn' },
    ...(reason === undefined
      ? { action: { text: 'Take control', run: () => void control.claim(false) } }
      : {}),
  });
}

const kScrollKeys = /^( |Arrow|Page|Home|End)/;

/** Whether a key press is for the page, not for a text field or another control. */
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

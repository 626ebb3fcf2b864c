import { kPhases } from '../../protocol/record';
import { kMaxPlanText } from '../../features/plan/plan_text';
import type { Zoom } from '../../base/step_range';
import { kTabs, type Tab } from './tabs';

/** Everything that makes one view of a run, as it stands in the address. */
export interface ViewState {
  readonly tab: Tab;
  /** Name of the watched entry; '' takes the plan's first. */
  readonly point: string;
  readonly layer: number;
  readonly row: number;
  /** Head of an attention map; vector of projections, by its place in the entry's list. */
  readonly head: number;
  readonly vector: number;
  /** What of a row's projections the curves show. */
  readonly over: 'last' | 'mean';
  readonly stat: 'mean' | 'std' | 'norm' | 'bad';
  readonly phase: 'train' | 'eval';
  readonly aggregate: 'mean' | 'absmax';
  /** A step of the past, or null to follow the newest. */
  readonly step: number | null;
  readonly smoothing: number;
  readonly logLoss: boolean;
  readonly logGrad: boolean;
  readonly clip99: boolean;
  /** Locked ends of the scales. */
  readonly layerLock: number | null;
  readonly tileLock: number | null;
  /** A draft of the trace plan, as plan_text.ts writes it; '' where it is the plan in force. */
  readonly plan: string;
  /** A draft of an intervention: its name, and its text as it was typed. */
  readonly programName: string;
  readonly program: string;
  readonly logX: boolean;
  readonly logRate: boolean;
  readonly logSpeed: boolean;
  /** Events stand as marks on every time axis. */
  readonly events: boolean;
  /** The steps that the curves show; null: all. */
  readonly zoom: Zoom;
  /** The view is held: nothing newer than this step is shown. */
  readonly hold: number | null;
  /** Tiles of one layer large, of all layers, or summed up over the steps. */
  readonly layout: 'one' | 'all' | 'over';
  /** Small maps have one colour range, or each its own. */
  readonly ranges: 'shared' | 'own';
  /** Rows of the histogram ridge. */
  readonly ridge: 'steps' | 'layers';
  /** A projection beyond it raises the alarm, in whatever view the page is. */
  readonly threshold: number | null;
  /** Which projection, as alarm_target.ts writes it; '' where there is no threshold. */
  readonly alarmTarget: string;
  /** Comparison: ids of other recordings, '' for the run itself; A has the step and phase above. */
  readonly runA: string;
  readonly runB: string;
  readonly stepB: number | null;
  readonly phaseB: 'train' | 'eval';
  /** Token of the row whose predictions are shown; null: the first. */
  readonly token: number | null;
  /** Ids of the other runs whose losses the overview shows. */
  readonly otherRuns: readonly string[];
}

export const kDefaultView: ViewState = {
  tab: 'tensors',
  point: '',
  layer: 1,
  row: 0,
  head: 0,
  vector: 0,
  over: 'last',
  stat: 'mean',
  phase: 'train',
  aggregate: 'mean',
  step: null,
  smoothing: 0.8,
  logLoss: false,
  logGrad: false,
  clip99: false,
  layerLock: null,
  tileLock: null,
  plan: '',
  programName: '',
  program: '',
  logX: false,
  logRate: false,
  logSpeed: false,
  events: true,
  zoom: null,
  hold: null,
  layout: 'one',
  ranges: 'shared',
  ridge: 'steps',
  threshold: null,
  alarmTarget: '',
  runA: '',
  runB: '',
  stepB: null,
  phaseB: 'train',
  token: null,
  otherRuns: [],
};

export const kMaxProgramName = 64;
/** As many as have colours. */
export const kMaxOtherRuns = 5;
const kMaxTarget = 240;
/** Characters of both drafts together, as the address writes them. */
const kMaxDrafts = 6000;

export const kTooLong =
  'Too long for the address: a link does not carry it, and a reload loses it.';

const kStats = ['mean', 'std', 'norm', 'bad'] as const;
const kLayouts = ['one', 'all', 'over'] as const;

/** Members of a query string, each null where it does not fit. */
class Members {
  private readonly query: URLSearchParams;

  constructor(search: string) {
    this.query = new URLSearchParams(search);
  }

  text(name: string): string {
    return this.query.get(name) ?? '';
  }

  whole(name: string, low: number): number | null {
    const text = this.text(name);
    return /^\d{1,15}$/.test(text) && Number(text) >= low ? Number(text) : null;
  }

  finite(name: string): number | null {
    const text = this.text(name);
    return text !== '' && Number.isFinite(Number(text)) ? Number(text) : null;
  }

  positive(name: string): number | null {
    const value = this.finite(name);
    return value !== null && value > 0 ? value : null;
  }

  flag(name: string, otherwise: boolean): boolean {
    const text = this.text(name);
    return text === '1' || text === '0' ? text === '1' : otherwise;
  }

  /** The one of the choices that stands there, or else the first. */
  oneOf<T extends string>(name: string, choices: readonly [T, ...T[]]): T {
    return choices.find((choice) => choice === this.text(name)) ?? choices[0];
  }
}

/** Reads a query string; what it does not tell, or wrongly, is as in `preferred`. */
export function parseViewState(search: string, preferred: ViewState = kDefaultView): ViewState {
  const members = new Members(search);
  return { ...placeOf(members), ...curvesOf(members, preferred), ...comparisonOf(members) };
}

type CurveView = Pick<
  ViewState,
  'smoothing' | 'logLoss' | 'logGrad' | 'logX' | 'logRate' | 'logSpeed' | 'events' | 'zoom' | 'hold'
>;
type ComparisonView = Pick<ViewState, 'runA' | 'runB' | 'stepB' | 'phaseB' | 'token' | 'otherRuns'>;
type PlaceView = Omit<ViewState, keyof CurveView | keyof ComparisonView>;

function placeOf(members: Members): PlaceView {
  return {
    tab: kTabs.find(({ tab }) => tab === members.text('tab'))?.tab ?? kDefaultView.tab,
    point: members.text('point').slice(0, 200),
    layer: members.whole('layer', 0) ?? kDefaultView.layer,
    row: members.whole('row', 0) ?? 0,
    head: members.whole('head', 0) ?? 0,
    vector: members.whole('vector', 0) ?? 0,
    over: members.oneOf('over', ['last', 'mean']),
    stat: members.oneOf('stat', kStats),
    phase: members.oneOf('phase', kPhases),
    aggregate: members.oneOf('agg', ['mean', 'absmax']),
    step: members.whole('step', 1),
    clip99: members.text('clip') === '99',
    layerLock: members.positive('llock'),
    tileLock: members.positive('tlock'),
    plan: members.text('plan'),
    programName: members.text('pname').slice(0, kMaxProgramName),
    program: members.text('program'),
    layout: members.oneOf('maps', kLayouts),
    ranges: members.oneOf('ranges', ['shared', 'own']),
    ridge: members.oneOf('ridge', ['steps', 'layers']),
    threshold: members.finite('thr'),
    alarmTarget: members.text('guard').slice(0, kMaxTarget),
  };
}

function curvesOf(members: Members, preferred: ViewState): CurveView {
  const smoothing = members.finite('smooth');
  const isSmoothing = smoothing !== null && smoothing >= 0 && smoothing <= 0.999;
  return {
    smoothing: isSmoothing ? smoothing : preferred.smoothing,
    logLoss: members.flag('logloss', preferred.logLoss),
    logGrad: members.flag('loggrad', preferred.logGrad),
    logX: members.flag('logx', preferred.logX),
    logRate: members.flag('loglr', preferred.logRate),
    logSpeed: members.flag('logtps', preferred.logSpeed),
    events: members.flag('events', preferred.events),
    zoom: zoomOf(members.text('zoom')),
    hold: members.whole('hold', 0),
  };
}

function comparisonOf(members: Members): ComparisonView {
  return {
    runA: runOf(members.text('runa')),
    runB: runOf(members.text('runb')),
    stepB: members.whole('stepb', 1),
    phaseB: members.oneOf('phaseb', kPhases),
    token: members.whole('token', 0),
    otherRuns: runsOf(members.text('runs')),
  };
}

/** "10.5-200" */
function zoomOf(text: string): Zoom {
  const parts = /^(\d{1,15}(?:\.\d{1,2})?)-(\d{1,15}(?:\.\d{1,2})?)$/.exec(text);
  if (parts === null) return null;
  const [low, high] = [Number(parts[1]), Number(parts[2])];
  return low < high ? [low, high] : null;
}

function runOf(id: string): string {
  return /^[0-9a-f]{16}$/.test(id) ? id : '';
}

function runsOf(text: string): readonly string[] {
  const ids = text.split('.').filter((id) => runOf(id) !== '');
  return [...new Set(ids)].slice(0, kMaxOtherRuns);
}

type Put = (name: string, value: string, isDefault: boolean) => void;

/** Whether the address can hold the program: the hub reads 8 KiB of a request with its headers. */
export function fitsAddress({ program, plan }: ViewState): boolean {
  const room = kMaxDrafts - (plan.length > kMaxPlanText ? 0 : plan.length);
  return new URLSearchParams({ program }).toString().length <= room;
}

/**
 * Writes the view as a query string with only what differs from the defaults. What readers keep
 * preferences of is left out only where it is also as in `preferred`; null: never.
 */
export function formatViewState(view: ViewState, preferred: ViewState | null): string {
  const query = new URLSearchParams();
  const put: Put = (name, value, isDefault) => {
    if (!isDefault) query.set(name, value);
  };
  put('tab', view.tab, view.tab === kDefaultView.tab);
  put('point', view.point, view.point === '');
  put('layer', String(view.layer), view.layer === kDefaultView.layer);
  put('row', String(view.row), view.row === 0);
  put('head', String(view.head), view.head === 0);
  put('vector', String(view.vector), view.vector === 0);
  put('over', view.over, view.over === 'last');
  put('stat', view.stat, view.stat === 'mean');
  put('phase', view.phase, view.phase === 'train');
  put('agg', view.aggregate, view.aggregate === 'mean');
  put('step', String(view.step), view.step === null);
  putPreferences(put, view, preferred);
  put('clip', '99', !view.clip99);
  put('llock', String(view.layerLock), view.layerLock === null);
  put('tlock', String(view.tileLock), view.tileLock === null);
  put('plan', view.plan, view.plan.length > kMaxPlanText || view.plan === '');
  put('pname', view.programName, view.programName === '');
  put('program', view.program, view.program === '' || !fitsAddress(view));
  put('zoom', view.zoom?.join('-') ?? '', view.zoom === null);
  put('hold', String(view.hold), view.hold === null);
  put('maps', view.layout, view.layout === 'one');
  put('ranges', view.ranges, view.ranges === 'shared');
  put('ridge', view.ridge, view.ridge === 'steps');
  put('thr', String(view.threshold), view.threshold === null);
  put('guard', view.alarmTarget, view.alarmTarget === '' || view.threshold === null);
  putComparison(put, view);
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

const kFlags = [
  ['logloss', 'logLoss'],
  ['loggrad', 'logGrad'],
  ['logx', 'logX'],
  ['loglr', 'logRate'],
  ['logtps', 'logSpeed'],
  ['events', 'events'],
] as const;

function putPreferences(put: Put, view: ViewState, preferred: ViewState | null): void {
  const isKnown = (member: keyof ViewState): boolean =>
    view[member] === kDefaultView[member] && view[member] === preferred?.[member];
  put('smooth', String(view.smoothing), isKnown('smoothing'));
  for (const [name, member] of kFlags) put(name, view[member] ? '1' : '0', isKnown(member));
}

function putComparison(put: Put, view: ViewState): void {
  put('runa', view.runA, view.runA === '');
  put('runb', view.runB, view.runB === '');
  put('stepb', String(view.stepB), view.stepB === null);
  put('phaseb', view.phaseB, view.phaseB === 'train');
  put('token', String(view.token), view.token === null);
  put('runs', view.otherRuns.join('.'), view.otherRuns.length === 0);
}

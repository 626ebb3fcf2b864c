import { kMaxPlanText } from './plan_text';
import type { Zoom } from '../store/step_range';
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
  /** Projections beyond it raise the alarm. */
  readonly threshold: number | null;
  /** Comparison: ids of other recordings, '' for the run itself; A has the step and phase above. */
  readonly runA: string;
  readonly runB: string;
  readonly stepB: number | null;
  readonly phaseB: 'train' | 'eval';
  /** Token of the row whose predictions are shown; null: the first. */
  readonly token: number | null;
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
  runA: '',
  runB: '',
  stepB: null,
  phaseB: 'train',
  token: null,
};

const kStats = ['mean', 'std', 'norm', 'bad'] as const;
const kLayouts = ['one', 'all', 'over'] as const;

/** Reads a query string; what it does not tell, or wrongly, is as in `preferred`. */
export function parseViewState(search: string, preferred: ViewState = kDefaultView): ViewState {
  const query = new URLSearchParams(search);
  const whole = (name: string, low: number): number | null => {
    const text = query.get(name);
    return text !== null && /^\d{1,15}$/.test(text) && Number(text) >= low ? Number(text) : null;
  };
  const positive = (name: string): number | null => {
    const value = Number(query.get(name) ?? Number.NaN);
    return Number.isFinite(value) && value > 0 ? value : null;
  };
  const flag = (name: string, otherwise: boolean): boolean => {
    const text = query.get(name);
    return text === '1' || text === '0' ? text === '1' : otherwise;
  };
  const finite = (name: string): number | null => {
    const text = query.get(name) ?? '';
    return text !== '' && Number.isFinite(Number(text)) ? Number(text) : null;
  };
  const smoothing = Number(query.get('smooth') ?? Number.NaN);
  return {
    tab: kTabs.find(({ tab }) => tab === query.get('tab'))?.tab ?? kDefaultView.tab,
    point: (query.get('point') ?? '').slice(0, 200),
    layer: whole('layer', 0) ?? kDefaultView.layer,
    row: whole('row', 0) ?? 0,
    head: whole('head', 0) ?? 0,
    vector: whole('vector', 0) ?? 0,
    over: query.get('over') === 'mean' ? 'mean' : 'last',
    stat: kStats.find((stat) => stat === query.get('stat')) ?? 'mean',
    phase: query.get('phase') === 'eval' ? 'eval' : 'train',
    aggregate: query.get('agg') === 'absmax' ? 'absmax' : 'mean',
    step: whole('step', 1),
    smoothing: smoothing >= 0 && smoothing <= 0.999 ? smoothing : preferred.smoothing,
    logLoss: flag('logloss', preferred.logLoss),
    logGrad: flag('loggrad', preferred.logGrad),
    clip99: query.get('clip') === '99',
    layerLock: positive('llock'),
    tileLock: positive('tlock'),
    plan: query.get('plan') ?? '',
    logX: flag('logx', preferred.logX),
    logRate: flag('loglr', preferred.logRate),
    logSpeed: flag('logtps', preferred.logSpeed),
    events: flag('events', preferred.events),
    zoom: zoomOf(query.get('zoom') ?? ''),
    hold: whole('hold', 0),
    layout: kLayouts.find((layout) => layout === query.get('maps')) ?? 'one',
    ranges: query.get('ranges') === 'own' ? 'own' : 'shared',
    ridge: query.get('ridge') === 'layers' ? 'layers' : 'steps',
    threshold: finite('thr'),
    runA: runOf(query.get('runa')),
    runB: runOf(query.get('runb')),
    stepB: whole('stepb', 1),
    phaseB: query.get('phaseb') === 'eval' ? 'eval' : 'train',
    token: whole('token', 0),
  };
}

/** "10.5-200" */
function zoomOf(text: string): Zoom {
  const parts = /^(\d{1,15}(?:\.\d{1,2})?)-(\d{1,15}(?:\.\d{1,2})?)$/.exec(text);
  if (parts === null) return null;
  const [low, high] = [Number(parts[1]), Number(parts[2])];
  return low < high ? [low, high] : null;
}

function runOf(id: string | null): string {
  return id !== null && /^[0-9a-f]{16}$/.test(id) ? id : '';
}

/** Writes the view as a query string with only what differs from the defaults. */
export function formatViewState(view: ViewState): string {
  const query = new URLSearchParams();
  const put = (name: string, value: string, isDefault: boolean): void => {
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
  put('smooth', String(view.smoothing), view.smoothing === kDefaultView.smoothing);
  put('logloss', '1', !view.logLoss);
  put('loggrad', '1', !view.logGrad);
  put('clip', '99', !view.clip99);
  put('llock', String(view.layerLock), view.layerLock === null);
  put('tlock', String(view.tileLock), view.tileLock === null);
  put('plan', view.plan, view.plan.length > kMaxPlanText || view.plan === '');
  put('logx', '1', !view.logX);
  put('loglr', '1', !view.logRate);
  put('logtps', '1', !view.logSpeed);
  put('events', '0', view.events);
  put('zoom', view.zoom?.join('-') ?? '', view.zoom === null);
  put('hold', String(view.hold), view.hold === null);
  put('maps', view.layout, view.layout === 'one');
  put('ranges', view.ranges, view.ranges === 'shared');
  put('ridge', view.ridge, view.ridge === 'steps');
  put('thr', String(view.threshold), view.threshold === null);
  put('runa', view.runA, view.runA === '');
  put('runb', view.runB, view.runB === '');
  put('stepb', String(view.stepB), view.stepB === null);
  put('phaseb', view.phaseB, view.phaseB === 'train');
  put('token', String(view.token), view.token === null);
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

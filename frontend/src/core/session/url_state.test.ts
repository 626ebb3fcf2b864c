import { expect, test } from 'vitest';
import {
  askedMembers,
  fitsAddress,
  formatViewState,
  defaultView,
  parseViewState,
  type ViewState,
} from './url_state';

test('the default view needs no query', () => {
  expect(formatViewState(defaultView(), defaultView())).toBe('');
  expect(parseViewState('')).toEqual(defaultView());
});

test('every member survives the address', () => {
  const view: ViewState = {
    ...defaultView(),
    tab: 'compare',
    point: 'MLP1 & co',
    layer: 3,
    row: 2,
    head: 3,
    vector: 1,
    over: 'mean',
    stat: 'row_norm_mean',
    since: 20,
    logStat: true,
    statAs: 'map',
    sort: '-rms',
    fullBins: true,
    phase: 'eval',
    aggregate: 'absmax',
    step: 118,
    smoothing: 0.85,
    logLoss: true,
    logGrad: true,
    clip: '99',
    shade: 'sqrt',
    layerLock: 0.53,
    tileLock: 1.5e-5,
    plan: 'HiddenStates.l1-4.t32*MLP1.m=data_2Emean_28_2D1_29',
    programName: 'steer & co',
    program: 'a = param(1)\n\n  layers[2].output += a * vector("böse")[2] # 50 %\n',
    logX: true,
    logRate: true,
    logSpeed: true,
    events: false,
    zoom: [10.5, 200],
    hold: 130,
    layout: 'over',
    ranges: 'own',
    ridge: 'layers',
    runA: '5f0c12ab34cd56ef',
    runB: '00000000000000aa',
    stepB: 40,
    mapCols: [3, 40],
    mapRows: [0, 9],
    layerRows: [1, 2],
    pin: { col: 7, cell: 12 },
    phaseB: 'eval',
    token: 17,
    lossesOf: ['5f0c00000000abcd', '00000000000000b2'],
  };
  expect(parseViewState(formatViewState(view, defaultView()))).toEqual(view);
});

test('a draft that no hub would read is left out', () => {
  const plan = 'HiddenStates*'.repeat(1000);
  expect(formatViewState({ ...defaultView(), plan, layer: 2 }, defaultView())).toBe('?layer=2');
});

test('a program that no hub would read is left out, and a plan beside it leaves it less room', () => {
  const program = 'a = 1\n'.repeat(450);
  const view = { ...defaultView(), program, layer: 2 };
  expect(fitsAddress(view, 'program')).toBe(true);
  expect(parseViewState(formatViewState(view, defaultView()))).toEqual(view);
  const plan = 'x'.repeat(3000);
  expect(formatViewState({ ...view, plan }, defaultView())).toBe(`?layer=2&plan=${plan}`);
  expect(formatViewState({ ...view, program: program.repeat(2) }, defaultView())).toBe('?layer=2');
});

test('nonsense falls back member by member', () => {
  const view = parseViewState(
    '?layer=-4&smooth=7&step=0&agg=sum&llock=-1&tlock=x&row=1.5&head=x&stat=mode&over=all' +
      '&point=QKV&zoom=9-3&hold=x&events=2&maps=2&ranges=all&ridge=x&thr=high' +
      '&runa=5F0C&runb=..&stepb=0&token=-1&runs=5F0C.x',
  );
  expect(view).toEqual({ ...defaultView(), point: 'QKV' });
});

test('what the address does not tell is as preferred', () => {
  const preferred = { ...defaultView(), smoothing: 0.5, logX: true, logLoss: true, events: false };
  expect(parseViewState('', preferred)).toEqual(preferred);
  const told = parseViewState('?smooth=0.9&logx=0&logloss=1&events=1', preferred);
  expect(told).toEqual({ ...preferred, smoothing: 0.9, logX: false, events: true });
});

test("a link shows the sender's curves, whatever the reader prefers", () => {
  const preferred = { ...defaultView(), smoothing: 0.3, logX: true, events: false };
  const link = formatViewState(defaultView(), null);
  expect(parseViewState(link, preferred)).toEqual(defaultView());
});

test('the address tells what is not as preferred, so that a reload shows it again', () => {
  const preferred = { ...defaultView(), smoothing: 0.3, logX: true };
  const address = formatViewState(defaultView(), preferred);
  expect(address).toBe('?smooth=0.8&logx=0');
  expect(parseViewState(address, preferred)).toEqual(defaultView());
  expect(formatViewState(preferred, preferred)).toBe('?smooth=0.3&logx=1');
});

test('a query takes what views are built by', () => {
  const view = {
    ...defaultView(),
    head: 3,
    vector: 2,
    aggregate: 'absmax' as const,
    stat: 'kurtosis' as const,
  };
  expect(askedMembers(view)).toMatchObject({ head: 3, vector: 2, aggregate: 'absmax' });
  expect(askedMembers(view)).not.toHaveProperty('stat');
});

test('the average of the heads has a name in the address', () => {
  const search = formatViewState({ ...defaultView(), head: -1 }, defaultView());
  expect(search).toBe('?head=mean');
  expect(parseViewState(search).head).toBe(-1);
});

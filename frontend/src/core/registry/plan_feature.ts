import type {
  CompressorFacts,
  HubError,
  PlanEntry,
  PointFacts,
  RunFacts,
} from '../../protocol/messages';
import type { Panel } from './panel';

/** The members of every entry in the trace plan's form; texts are as the user typed them. */
export interface EntryRow {
  enabled: boolean;
  point: string;
  direction: 'value' | 'gradient';
  layers: string;
  every: string;
  train: boolean;
  evaluation: boolean;
  /** Trace every forward of an evaluation, not only the first; the form does not show this member. */
  allEvaluation: boolean;
  microBatches: string;
  /** The name of a prompt set; '' for the run's own data. */
  prompts: string;
  /** Traces the prompts together with the responses of the model. */
  responses: boolean;
  rows: string;
  tokens: string;
  /** The tokens of which the entry takes the mean; '' for each token. */
  meanOver: string;
  kind: string;
  /** The compressor's kind and the members that the form does not show; they stay unchanged. */
  more: CompressorFacts | null;
  dtype: string;
}

/** An entry with the members of all compressors. Each feature adds its members by declaration merging. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- features fill it
export interface PlanRow extends EntryRow {}

/** The members of a row that are texts. */
export type TextMember = {
  [K in keyof PlanRow]: string extends PlanRow[K] ? K : never;
}[keyof PlanRow];

/** A wrong member of a row: its name on the wire, and a message with the values that are allowed. */
export type Problem = readonly [field: string, message: string];

/** An error of an entry; `field` is the member's name on the wire. */
export interface FormError {
  readonly row: number;
  readonly field: string;
  readonly message: string;
}

/** The props of a compressor's fields. */
export interface FieldsProps {
  row: PlanRow;
  /** "of entry 2", for the names of the fields. */
  readonly of: string;
  readonly run: RunFacts | null;
  readonly point: PointFacts | undefined;
  readonly disabled: boolean;
  readonly wrong: FormError | null;
  readonly error: HubError | null;
  readonly ontouch: () => void;
}

type Vectors = Pick<RunFacts, 'vectors'> | null;

/** A compressor in the trace plan's form. Compressors of one form may share it. */
export interface PlanCompressor {
  readonly text: string;
  readonly dtypes: readonly string[];
  /** Whether the trainer accepts the compressor for a point with features. */
  takes?(point: PointFacts | undefined, run: Vectors): boolean;
  /** The row's members of this compressor; the defaults if `of` is another compressor. */
  rowOf(of: CompressorFacts): Partial<PlanRow>;
  entryOf(row: PlanRow): CompressorFacts;
  problemOf?(row: PlanRow): Problem | undefined;
  /** The compressor's name in the list: "tile 64". */
  nameOf?(row: PlanRow): string;
  /** The members that the columns of the list do not show. */
  summaryOf?(row: PlanRow): readonly string[];
  /** The members of a new row that depend on its point. */
  newRowOf?(point: PointFacts): Partial<PlanRow>;
  /** Corrects the members after the user chose this compressor or another point. */
  fit?(row: PlanRow, run: Vectors): void;
  /** The members that the text of a plan change names; '' if the row does not have the member. */
  readonly members?: readonly (readonly [name: string, of: (row: PlanRow) => string])[];
  /** Members that the address has as a letter and the typed text. */
  readonly texts?: Readonly<Record<string, TextMember>>;
  /** Writes other members for the address, each after its letter; `readMark` reads one. */
  marksOf?(row: PlanRow): readonly string[];
  readMark?(row: PlanRow, letter: string, value: string): boolean;
  /** The members that are written with their default values. */
  unused?(row: PlanRow): Partial<PlanRow>;
  readonly fields?: Panel<FieldsProps>;
}

/** A plan that the form offers as a start. */
export interface Preset {
  readonly name: string;
  readonly text: string;
  readonly entries: readonly PlanEntry[];
}

/** The facts of the run from which presets are made. */
export type PresetRun = Pick<RunFacts, 'points' | 'prompt_sets' | 'vectors'> & {
  readonly model: Pick<RunFacts['model'], 'seq_length'>;
};

/** A feature's contributions to the plan's form: compressors by name, and presets. */
export interface PlanFeature {
  readonly compressors?: Readonly<Record<string, PlanCompressor>>;
  presetsOf?(run: PresetRun): readonly Preset[];
}

// Functions that read the texts of the form.

export function isEmpty(text: string): boolean {
  return text.trim() === '';
}

export function isWhole(text: string): boolean {
  return /^\s*[1-9]\d{0,8}\s*$/.test(text);
}

export function wholeOf(text: string): number | undefined {
  return isEmpty(text) ? undefined : Number(text);
}

/** The trimmed text, or `fallback` if the text is empty. */
export function orElse(text: string, fallback: string): string {
  return isEmpty(text) ? fallback : text.trim();
}

// Functions for presets.

export function pointsNamed(run: PresetRun, names: readonly string[]): readonly PointFacts[] {
  return names.flatMap((name) => run.points.filter((point) => point.name === name));
}

import type {
  CompressorFacts,
  HubError,
  PlanEntry,
  PointFacts,
  RunFacts,
} from '../../protocol/messages';
import type { Panel } from './panel';

/** What every entry of the trace plan's form has; texts are what the user typed. */
export interface EntryRow {
  enabled: boolean;
  point: string;
  direction: 'value' | 'gradient';
  layers: string;
  every: string;
  train: boolean;
  evaluation: boolean;
  /** Every forward of an evaluation, not only the first; the form does not show it. */
  allEvaluation: boolean;
  microBatches: string;
  /** Name of a prompt set, '' for the run's own data. */
  prompts: string;
  rows: string;
  tokens: string;
  kind: string;
  /** Members of the compressor that the form does not show, with its kind; they stay as they are. */
  more: CompressorFacts | null;
  dtype: string;
}

/** An entry with the members of all compressors: each feature adds its own where it declares them. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- features fill it
export interface PlanRow extends EntryRow {}

/** The members of a row that are texts. */
export type TextMember = {
  [K in keyof PlanRow]: string extends PlanRow[K] ? K : never;
}[keyof PlanRow];

/** A member of a row that is wrong, by its name on the wire, and what it should be. */
export type Problem = readonly [field: string, message: string];

/** What is wrong with an entry; `field` is the member's name on the wire. */
export interface FormError {
  readonly row: number;
  readonly field: string;
  readonly message: string;
}

/** What the fields of a compressor get. */
export interface FieldsProps {
  row: PlanRow;
  /** "of entry 2", for names. */
  readonly of: string;
  readonly run: RunFacts | null;
  readonly point: PointFacts | undefined;
  readonly disabled: boolean;
  readonly wrong: FormError | null;
  readonly error: HubError | null;
  readonly ontouch: () => void;
}

type Vectors = Pick<RunFacts, 'vectors'> | null;

/** What the form of the trace plan knows of a compressor. Compressors of one form may share it. */
export interface PlanCompressor {
  readonly text: string;
  readonly dtypes: readonly string[];
  /** Whether the trainer takes it for a point with features. */
  takes?(point: PointFacts | undefined, run: Vectors): boolean;
  /** Its members of a row; of another compressor those of which nothing was chosen. */
  rowOf(of: CompressorFacts): Partial<PlanRow>;
  entryOf(row: PlanRow): CompressorFacts;
  problemOf?(row: PlanRow): Problem | undefined;
  /** Its name in the list: "tile 64". */
  nameOf?(row: PlanRow): string;
  /** What the columns of the list do not show. */
  summaryOf?(row: PlanRow): readonly string[];
  /** The members of a new row that depend on its point. */
  newRowOf?(point: PointFacts): Partial<PlanRow>;
  /** Makes its members fit after it, or the point, was chosen. */
  fit?(row: PlanRow, run: Vectors): void;
  /** What a change of the plan names; '' where the row has none. */
  readonly members?: readonly (readonly [name: string, of: (row: PlanRow) => string])[];
  /** Members that stand in the address as a letter and what was typed. */
  readonly texts?: Readonly<Record<string, TextMember>>;
  /** Other members in the address, each with its letter; and back. */
  marksOf?(row: PlanRow): readonly string[];
  readMark?(row: PlanRow, letter: string, value: string): boolean;
  /** Members that are written as if nothing was chosen. */
  unused?(row: PlanRow): Partial<PlanRow>;
  readonly fields?: Panel<FieldsProps>;
}

/** A plan to begin with. */
export interface Preset {
  readonly name: string;
  readonly text: string;
  readonly entries: readonly PlanEntry[];
}

/** What presets are made from. */
export type PresetRun = Pick<RunFacts, 'points' | 'prompt_sets' | 'vectors'>;

/** What a feature contributes to the form of the plan: compressors by name, and presets. */
export interface PlanFeature {
  readonly compressors?: Readonly<Record<string, PlanCompressor>>;
  presetsOf?(run: PresetRun): readonly Preset[];
}

// Texts as the form reads them.

export function isEmpty(text: string): boolean {
  return text.trim() === '';
}

export function isWhole(text: string): boolean {
  return /^\s*[1-9]\d{0,8}\s*$/.test(text);
}

export function wholeOf(text: string): number | undefined {
  return isEmpty(text) ? undefined : Number(text);
}

/** What stands there, or else something. */
export function orElse(text: string, fallback: string): string {
  return isEmpty(text) ? fallback : text.trim();
}

// What presets are made of.

export function pointsNamed(run: PresetRun, names: readonly string[]): readonly PointFacts[] {
  return names.flatMap((name) => run.points.filter((point) => point.name === name));
}

/** Records that are shown alike: by tiles or columns, by their statistics, and so on. */
export type Form = string;

/** A compressor of the plan, by what its records say of it. */
export interface CompressorKind {
  /** In a plan. */
  readonly name: string;
  /** On the wire; two compressors may write the same records. */
  readonly code: number;
  readonly form: Form;
  /** Its views have curves over the steps: their past is fetched. */
  readonly hasCurves: boolean;
  /** Its records are by token, whose text goes with them. */
  readonly isByToken: boolean;
  /** The point alone is the name of its entries. */
  readonly isPlain?: boolean;
}

const kKinds: CompressorKind[] = [];

/** Makes compressors known; of two with one code the first names the records. */
export function registerCompressors(kinds: readonly CompressorKind[]): void {
  kKinds.push(...kinds);
}

/** The names that a plan may use, in the order of their registration. */
export function compressorNames(): readonly string[] {
  return kKinds.map(({ name }) => name);
}

/** The form of a record, by its compressor's number on the wire. */
export function formOf(code: number): Form {
  return kKinds.find((kind) => kind.code === code)?.form ?? 'other';
}

/** The form of the records of a plan's compressor. */
export function formOfPlan(name: string): Form {
  return kKinds.find((kind) => kind.name === name)?.form ?? 'other';
}

export function isPlain(name: string): boolean {
  return kKinds.find((kind) => kind.name === name)?.isPlain ?? false;
}

/** What is known of the records of a form. */
export function kindOfForm(form: Form): CompressorKind | undefined {
  return kKinds.find((kind) => kind.form === form);
}

export function compressorName(code: number): string {
  return kKinds.find((kind) => kind.code === code)?.name ?? `compressor ${code}`;
}

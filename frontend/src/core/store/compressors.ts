/** The form of records that are shown in the same way: tiles or columns, statistics, and so on. */
export type Form = string;

/** A compressor of the plan, and the facts about its records. */
export interface CompressorKind {
  /** The name in a plan. */
  readonly name: string;
  /** The number on the wire; two compressors may write the same records. */
  readonly code: number;
  readonly form: Form;
  /** Its views have curves over the steps, whose past records are fetched. */
  readonly hasCurves: boolean;
  /** Its records have a token dim, and are shown with the text of the tokens. */
  readonly isByToken: boolean;
  /** The point alone is the name of its entries. */
  readonly isPlain?: boolean;
}

const kKinds: CompressorKind[] = [];

/** Registers compressors. Of two with the same code, the first one gives the records their name. */
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

/** The first compressor whose records have this form. */
export function kindOfForm(form: Form): CompressorKind | undefined {
  return kKinds.find((kind) => kind.form === form);
}

export function compressorName(code: number): string {
  return kKinds.find((kind) => kind.code === code)?.name ?? `compressor ${code}`;
}

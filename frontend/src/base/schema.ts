/** Parsers that check data from outside the page. A parser returns a value or throws. */
export type Parser<T> = (value: unknown, path: string) => T;
export type Infer<P> = P extends Parser<infer T> ? T : never;

export class SchemaError extends Error {
  constructor(
    readonly path: string,
    expected: string,
  ) {
    super(`${path === '' ? 'message' : path}: expected ${expected}`);
    this.name = 'SchemaError';
  }
}

export function parse<T>(parser: Parser<T>, value: unknown): T {
  return parser(value, '');
}

/** Parses a value; undefined if the value has another form. */
export function read<T>(parser: Parser<T>, value: unknown): T | undefined {
  try {
    return parse(parser, value);
  } catch (error) {
    if (error instanceof SchemaError) return undefined;
    throw error;
  }
}

export const string: Parser<string> = (value, path) => {
  if (typeof value !== 'string') throw new SchemaError(path, 'a string');
  return value;
};

export const boolean: Parser<boolean> = (value, path) => {
  if (typeof value !== 'boolean') throw new SchemaError(path, 'true or false');
  return value;
};

/** A number, or one of the three strings for the numbers that JSON cannot express. */
export const number: Parser<number> = (value, path) => {
  if (typeof value === 'number') return value;
  if (value === 'NaN') return Number.NaN;
  if (value === 'Infinity') return Number.POSITIVE_INFINITY;
  if (value === '-Infinity') return Number.NEGATIVE_INFINITY;
  throw new SchemaError(path, 'a number');
};

/** A whole number from 0 to 2^53 - 1. */
export const count: Parser<number> = (value, path) => {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw new SchemaError(path, 'a whole number from 0');
  }
  return value;
};

/** A whole number from 0 to `most`. */
export function countTo(most: number): Parser<number> {
  return (value, path) => {
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0 || value > most) {
      throw new SchemaError(path, `a whole number from 0 to ${most}`);
    }
    return value;
  };
}

export const unknown: Parser<unknown> = (value) => value;

export function oneOf<const T extends string>(...names: readonly T[]): Parser<T> {
  return (value, path) => {
    const found = names.find((name) => name === value);
    if (found === undefined) throw new SchemaError(path, `one of ${names.join(', ')}`);
    return found;
  };
}

export function array<T>(item: Parser<T>): Parser<readonly T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) throw new SchemaError(path, 'a list');
    return value.map((each: unknown, i) => item(each, `${path}[${i}]`));
  };
}

/** A list of exactly two items. */
export function pair<T>(item: Parser<T>): Parser<readonly [T, T]> {
  return (value, path) => {
    if (!Array.isArray(value) || value.length !== 2) throw new SchemaError(path, 'a list of two');
    return [item(value[0], `${path}[0]`), item(value[1], `${path}[1]`)];
  };
}

/** Tries `first`; if the value has another form, tries `second`. */
export function either<A, B>(first: Parser<A>, second: Parser<B>): Parser<A | B> {
  return (value, path) => {
    try {
      return first(value, path);
    } catch (error) {
      if (!(error instanceof SchemaError)) throw error;
      return second(value, path);
    }
  };
}

/** An object with any member names, whose values all have the form of `item`. */
export function mapOf<T>(item: Parser<T>): Parser<Readonly<Record<string, T>>> {
  return (value, path) => {
    if (!isRecord(value)) throw new SchemaError(path, 'an object');
    const members = Object.entries(value);
    return Object.fromEntries(members.map(([name, each]) => [name, item(each, `${path}.${name}`)]));
  };
}

export function nullable<T>(inner: Parser<T>): Parser<T | null> {
  return (value, path) => (value === null ? null : inner(value, path));
}

export function optional<T>(inner: Parser<T>): Parser<T | undefined> {
  return (value, path) => (value === undefined ? undefined : inner(value, path));
}

export function withDefault<T>(inner: Parser<T>, fallback: T): Parser<T> {
  return (value, path) => (value === undefined ? fallback : inner(value, path));
}

/** The parsed object of `known`, with the other members of the value unchanged. */
export function open<T extends object>(known: Parser<T>): Parser<T> {
  return (value, path) => ({ ...(value as object), ...known(value, path) });
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

type Shape = Readonly<Record<string, Parser<unknown>>>;
type OptionalOf<S extends Shape> = {
  [K in keyof S]: undefined extends Infer<S[K]> ? K : never;
}[keyof S];
type ObjectOf<S extends Shape> = {
  readonly [K in Exclude<keyof S, OptionalOf<S>>]: Infer<S[K]>;
} & { readonly [K in OptionalOf<S>]?: Infer<S[K]> };

/** An object with these members; other members are left out. */
export function object<S extends Shape>(shape: S): Parser<ObjectOf<S>> {
  return (value, path) => {
    if (!isRecord(value)) throw new SchemaError(path, 'an object');
    const out: Record<string, unknown> = {};
    for (const [name, parser] of Object.entries(shape)) {
      const at = path === '' ? name : `${path}.${name}`;
      const parsed = parser(value[name], at);
      if (parsed !== undefined) out[name] = parsed;
    }
    return out as ObjectOf<S>;
  };
}

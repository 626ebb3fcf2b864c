import type { FormError } from '../core/registry/plan_feature';

/** What a field of the plan's form tells assistive technology of its error. */
export function fieldState(
  wrong: FormError | null,
  name: string,
): {
  readonly 'aria-invalid': boolean;
  readonly 'aria-describedby': string | undefined;
} {
  const invalid = wrong?.field === name;
  return {
    'aria-invalid': invalid,
    'aria-describedby': invalid ? `wrong-${name}` : undefined,
  };
}

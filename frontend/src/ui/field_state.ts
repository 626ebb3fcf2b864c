import type { FormError } from '../core/registry/plan_feature';

/** The ARIA attributes for the error of a field in the plan's form. */
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

// The part of the page's test handle that the tests use (src/main.ts).
interface Window {
  readonly __tt?: {
    idle(): Promise<void>;
    readonly app: {
      readonly series: { readonly all: readonly { readonly step: number }[] };
      readonly plan: { readonly entries: readonly unknown[] } | null;
      readonly control: {
        setPlan(plan: { readonly entries: readonly unknown[] }): Promise<unknown>;
      };
    };
  };
}

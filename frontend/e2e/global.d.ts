// The part of the page's test handle that the tests use (src/main.ts).
interface Window {
  readonly __tt?: {
    idle(): Promise<void>;
    readonly app: {
      readonly series: {
        readonly all: readonly { readonly step: number; readonly loss?: number | null }[];
      };
      readonly traffic: { readonly problems: number } | null;
      readonly frame: {
        readonly kind: string;
        readonly steps: readonly number[];
        readonly history?: {
          readonly steps: readonly number[];
          readonly lines: Readonly<Record<string, readonly (readonly (number | null)[])[]>>;
        };
        readonly maps?: readonly ({ readonly rows: number } | null)[];
      } | null;
      readonly newestStep: number;
      readonly happened: readonly { readonly kind: string; readonly step: number }[];
      show(change: { readonly clip: 'full' | '99' | '90' }): void;
      readonly plan: { readonly entries: readonly unknown[] } | null;
      readonly control: {
        setPlan(plan: { readonly entries: readonly unknown[] }): Promise<unknown>;
        step(count: number): Promise<unknown>;
        release(): Promise<unknown>;
      };
    };
  };
}

import { untrack } from 'svelte';
import type { HubError, PlanEntry, PointFacts, RunFacts } from '../../protocol/messages';
import { accessOf } from '../../core/session/access';
import type { Session } from '../../core/session/session';
import { changesOf } from './plan_diff';
import type { FormError } from '../../core/registry/plan_feature';
import { placeOf, planOf } from './plan_form';
import { missingRows } from './plan_merge';
import { type EntryEstimate, PlanChecker } from './plan_checker.svelte';
import type { PlanRow } from '../../core/registry/plan_feature';
import { newRow, rowsOf } from './plan_row';
import { formatDraft, parseDraft } from './plan_text';
import { fitsAddress } from '../../core/session/url_state';

const kFree = 'Nobody holds control: Apply claims it.';
const kReplayed = 'A recording cannot be traced again. This is the plan of the recorded run.';

/** The draft of a trace plan. It follows the plan in force until the user edits it. */
export class PlanEditor {
  rows = $state<PlanRow[]>([]);
  /** Index of the entry whose form is shown. */
  chosen = $state(0);
  readonly checker: PlanChecker;

  /** The run, with vectors that the plan names and that were added to the run's folder after its start. */
  readonly run = $derived.by((): RunFacts | null => {
    const { run } = this.session;
    const named = [...this.inForce, ...this.rows].flatMap(({ vectors }) => vectors);
    if (run === null) return null;
    const vectors = [...run.vectors, ...named];
    return { ...run, vectors: vectors.filter((name, at) => vectors.indexOf(name) === at) };
  });
  readonly points = $derived.by(() => this.session.run?.points ?? []);
  readonly inForce = $derived.by((): readonly PlanRow[] =>
    this.session.plan === null ? [] : rowsOf(this.session.plan, this.points),
  );
  readonly edited = $derived.by(() => this.session.view.plan !== '');
  /** The draft is too long for the URL: a reload loses it. */
  readonly isTooLong = $derived.by(() => !fitsAddress(this.session.view, 'plan'));
  readonly changes = $derived(this.edited ? changesOf(this.inForce, this.rows) : []);
  readonly access = $derived.by(() => accessOf(this.session, kFree, kReplayed));
  readonly readOnly = $derived(this.access.readOnly);
  /** The error in the draft, or the reason why the last draft was refused. */
  readonly error = $derived.by(
    (): HubError | null => this.problem ?? this.refused ?? this.checker.error,
  );
  /** That error, if it names an entry of the draft. */
  readonly wrong = $derived.by((): FormError | null => {
    const place = placeOf(this.error?.where);
    if (place === null || this.error === null || place.row >= this.rows.length) return null;
    return { ...place, message: this.error.message };
  });

  private refused = $state.raw<HubError | null>(null);
  private readonly made = $derived.by(() => planOf($state.snapshot(this.rows), this.points));
  private readonly problem = $derived.by((): HubError | null => {
    if (this.made.ok) return null;
    const { row, field, message } = this.made;
    return { code: 'invalid_argument', message, where: `plan.entries[${row}].${field}` };
  });
  /** The session and the run that check the draft. */
  private trainer = '';
  private written: string | undefined;
  private followed: readonly PlanRow[] | undefined;

  constructor(private readonly session: Session) {
    this.checker = new PlanChecker(session.link);
  }

  dispose(): void {
    this.checker.dispose();
  }

  /** Takes the draft of the URL, or the plan in force if there is no draft. */
  follow(): void {
    const { inForce } = this;
    const { plan, view } = this.session;
    untrack(() => {
      const news = inForce !== this.followed && view.plan === '';
      if (view.plan !== this.written || news) {
        this.rows = parseDraft(view.plan) ?? copiesOf(inForce);
        this.choose(this.chosen);
      }
      this.followed = inForce;
      this.written = view.plan;
      if (plan !== null && view.plan !== '' && sameDraft(this.rows, inForce)) this.write('');
    });
  }

  /** Asks the trainer to check the current draft. A replay has no trainer. */
  check(): void {
    const { made } = this;
    const { run, replay, control } = this.session;
    const askable = control.session !== '' && run !== null && replay === null && made.ok;
    const trainer = `${control.session}/${run?.id ?? ''}`;
    untrack(() => {
      if (trainer !== this.trainer) this.checker.restart();
      this.trainer = trainer;
      this.checker.check(askable ? made.plan.entries : null);
    });
  }

  /** To be called after every edit. */
  touch(): void {
    this.refused = null;
    this.write(sameDraft(this.rows, this.inForce) ? '' : formatDraft(this.rows));
  }

  add(): void {
    const unused = this.points.find(({ name }) => !this.rows.some((row) => row.point === name));
    const point: PointFacts | undefined = unused ?? this.points[0];
    if (point === undefined) return;
    this.rows.push(newRow(point));
    this.chosen = this.rows.length - 1;
    this.touch();
  }

  duplicate(): void {
    const row = this.rows[this.chosen];
    if (row === undefined) return;
    this.rows.splice(this.chosen + 1, 0, $state.snapshot(row));
    this.chosen += 1;
    this.touch();
  }

  remove(): void {
    this.rows.splice(this.chosen, 1);
    this.choose(this.chosen);
    this.touch();
  }

  move(by: 1 | -1): void {
    const to = this.chosen + by;
    if (to < 0 || to >= this.rows.length) return;
    const [row] = this.rows.splice(this.chosen, 1);
    this.rows.splice(to, 0, row);
    this.chosen = to;
    this.touch();
  }

  /** Replaces all entries. */
  replaceAll(rows: readonly PlanRow[]): void {
    this.rows = copiesOf(rows);
    this.choose(0);
    this.touch();
  }

  /** Adds the entries that the draft lacks. Returns the number of added entries. */
  append(rows: readonly PlanRow[]): number {
    const missing = missingRows($state.snapshot(this.rows), rows, this.points);
    if (missing.length === 0) return 0;
    const kept = this.rows.length;
    this.rows = [...this.rows, ...copiesOf(missing)];
    this.choose(kept);
    this.touch();
    return missing.length;
  }

  revert(): void {
    this.refused = null;
    this.settle();
  }

  async apply(): Promise<void> {
    const { made } = this;
    if (!made.ok) {
      this.chosen = made.row;
      return;
    }
    const sent = formatDraft(this.rows);
    const outcome = await this.session.control.setPlan(made.plan);
    this.refused = outcome.ok ? null : outcome.error;
    if (this.wrong !== null) this.chosen = this.wrong.row;
    // Edits since the request are the next draft.
    if (outcome.ok && formatDraft(this.rows) === sent) this.settle(outcome.value.number);
  }

  /** The trainer's estimate of an entry of the draft. */
  estimateOf(index: number): EntryEstimate | null {
    const entry: PlanEntry | undefined = this.made.ok ? this.made.plan.entries[index] : undefined;
    return entry === undefined ? null : this.checker.estimateOf(entry);
  }

  /** Ends the draft. The notification of the new plan may come after the answer. */
  private settle(number = 0): void {
    if ((this.session.plan?.number ?? 0) >= number) this.rows = copiesOf(this.inForce);
    this.choose(this.chosen);
    this.write('');
  }

  private choose(index: number): void {
    this.chosen = Math.max(0, Math.min(index, this.rows.length - 1));
  }

  private write(text: string): void {
    this.written = text;
    this.session.show({ plan: text });
  }
}

function sameDraft(one: readonly PlanRow[], other: readonly PlanRow[]): boolean {
  return formatDraft(one) === formatDraft(other);
}

function copiesOf(rows: readonly PlanRow[]): PlanRow[] {
  return rows.map((row) => ({ ...row, vectors: [...row.vectors], rest: { ...row.rest } }));
}

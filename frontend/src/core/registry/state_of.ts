import type { Session } from '../session/session';

/**
 * What a feature keeps for a session: made when it is first asked for. If a component may be the first to ask,
 * nothing in it is $derived: that would end with the component.
 */
export function stateOf<T>(make: (session: Session) => T): (session: Session) => T {
  const kept = new WeakMap<Session, T>();
  return (session) => {
    const known = kept.get(session);
    if (known !== undefined) return known;
    const made = make(session);
    kept.set(session, made);
    return made;
  };
}

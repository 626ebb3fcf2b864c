import type { Session } from '../session/session';

/**
 * The state of a feature for a session. The first call makes it. If a component may make the first
 * call, the state must not contain a $derived, which would end with the component.
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

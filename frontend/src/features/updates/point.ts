/** The point with a row for each parameter, once in a step. */
export const kUpdatesPoint = 'Updates';

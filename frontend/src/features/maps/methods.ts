/** The trainer's methods to reduce a tile without an expression. */
export const kMethods = ['mean', 'sum', 'absmax'] as const;
/** The choice of an expression instead of one of these methods. */
export const kExpression = 'expression';

const kIntervalMs = 10_000;

/** Calls every 10 s while the browser shows the page. Returns a function that ends the calls. */
export function whileVisible(call: () => void): () => void {
  const timer = setInterval(() => {
    if (document.visibilityState === 'visible') call();
  }, kIntervalMs);
  return () => clearInterval(timer);
}

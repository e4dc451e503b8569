// What the tests use of node, so that the page's own scripts are checked against a browser's types alone.
declare module 'node:assert/strict' {
  interface Assert {
    ok(value: unknown, message?: string): asserts value;
    equal(actual: unknown, expected: unknown, message?: string): void;
    notEqual(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    match(actual: string, expected: RegExp, message?: string): void;
    rejects(promise: Promise<unknown>): Promise<void>;
  }
  const assert: Assert;
  export default assert;
}
declare module 'node:test' {
  export default function test(name: string, run: () => void | Promise<void>): void;
}
declare module 'node:fs' {
  export function readFileSync(path: URL, encoding: 'utf8'): string;
}

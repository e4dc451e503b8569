// What the page's scripts share: elements, forms, charts, and the object that every widget is mounted with.
import type { Field } from './answers';

declare global {
  interface Window {
    Studio: Studio;
  }
}

export type Child = string | Node | null | undefined | boolean | readonly Child[];
export type Attributes = Record<string, unknown>;

export interface ElementBuilder {
  (
    tag: 'svg' | 'path' | 'line' | 'text' | 'g' | 'rect' | 'circle' | 'polyline' | 'polygon' | 'image' | 'title',
    attributes?: Attributes,
    ...children: Child[]
  ): SVGElement;
  <K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes?: Attributes,
    ...children: Child[]
  ): HTMLElementTagNameMap[K];
}

/** Settings that MedMix hands over to Training. */
export interface Handed {
  strong: string;
  config: Record<string, unknown>;
  weak: Record<string, unknown>;
  preset: string;
}

export interface Studio {
  study: string | null;
  tab: string | null;
  started: boolean;
  handed: Handed | null;
  importing: boolean;
  byHand: boolean;
  /** What jobs make for the open study; null before it was asked for. */
  plan: import('./answers').Plan | null;
  /** Returns a function that stops listening. */
  on(event: string, fn: (detail: any) => void): () => void;
  emit(event: string, detail?: unknown): void;
  setStudy(id: string | null): void;
  chooseStudy(id: string | null): void;
  bridge(props: { value: string }, trigger: (event: string) => void): void;
  openTab(name: string): void;
  openCase(id: number): void;
  /** A run in the Training tab. */
  openRun(id: string): void;
  /** The cases as a detector's run reads them, in the Review tab. */
  openReadings(run: string): void;
  address(changes: Record<string, string | number | null>): void;
  mount(root: HTMLElement, module: string, props: unknown): Promise<void>;
  shown(element: HTMLElement): boolean;
}

/** A group of settings, as core/studio says it. */
export interface Group {
  title: string;
  fields: Field[];
}
export type Values = Record<string, any>;

/** [step, value]; null where the run has no number. */
export type Point = [number, number | null];
export type Series = Record<string, Point[]>;
export interface Line {
  name: string;
  points: Point[];
  colour?: string;
  dash?: boolean;
  thick?: boolean;
}

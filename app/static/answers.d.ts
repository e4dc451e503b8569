// Made by `python -m app.routes.schema --write` from app/routes/_answers.
// What the routes answer, and an overload of api.js's functions for each: the path says which answer comes.
import type { Answer, Params } from './types';

/** What is kept of a case besides its picture. patient: the beginning of a keyed hash. text: likely burned in. */
export interface About {
  format: string;
  patient: string | null;
  study: string;
  added: string;
  shown_from: [number, number] | null;
  text: boolean | null;
}
/** sign_in: whether people sign in at all. you: the name of whoever asks. */
export interface Accounts {
  sign_in: boolean;
  you: string;
  accounts: Array<KeptAccount>;
}
export interface Adjudication {
  reader: string;
  decision: Decision;
}
export interface Agreement {
  stage: string;
  readers: Array<string>;
  decisions: Array<Decision>;
  pairs: Array<PairAgreement>;
  fleiss: FleissKappa | null;
  differ: Array<Differing>;
}
/** A case whose picture is fetched before it is asked for. name: where the reader knows it by a neutral one. */
export interface Ahead {
  id: number;
  v: string;
  bits: number | null;
  name?: string;
}
export interface AskedLearning {
  job: number;
  run: string;
}
export interface AskedReport {
  job: number;
}
/** role: null without an account. read: of those assigned; read_in_all: cases of the study, assigned or not. */
export interface AssignedReader {
  name: string;
  role: string | null;
  assigned: number;
  read: number;
  read_in_all: number;
}
/** cases: of the test part; free: of these, assigned to nobody. */
export interface Assignments {
  readers: Array<AssignedReader>;
  cases: number;
  free: number;
}
/** Whose published numbers stand beside ours, and whether they are of these images. */
export interface Beside {
  dataset: string;
  own: boolean;
}
export interface Bin {
  rows: Array<Binned>;
  days: number;
}
/** A run or a study in the bin. */
export interface Binned {
  kind: "run" | "study";
  id: string;
  name: string;
  study: string;
  binned: string;
  until: string;
}
/** rows: how many, by table. readers: new names by those of the bundle. missing, changed: names of cases. */
export interface Bundle {
  study: string;
  rows: Record<string, number>;
  readers: Record<string, string>;
  missing: Missing;
  changed: Array<string>;
}
export interface ByDecision {
  normal: number;
  abnormal: number;
  unsure: number;
}
export interface ByLabel {
  normal: number;
  abnormal: number;
  unknown: number;
}
export interface BySplit {
  train: number;
  holdout: number;
  test: number;
}
/** Nothing below `mine` while the case is hidden from a blind reader; others, frames, recording: never of a study that is read blind; about: never under neutral names. kinds: those tags that came with the import. */
export interface CaseDetail {
  id: number;
  v: string;
  width: number;
  height: number;
  bits: number | null;
  name: string;
  blind: boolean;
  mine: Array<OwnReview>;
  frame?: number;
  modality?: string | null;
  spacing?: Spacing | null;
  label?: Label;
  split?: Split;
  tags?: Array<string>;
  kinds?: Array<string>;
  readings?: Record<string, Reading | null>;
  masks?: Array<MaskVersion>;
  findings?: Array<Finding>;
  about?: About;
  others?: Array<OthersReview>;
  frames?: number;
  recording?: number;
}
export interface CaseOfPoint {
  id: number;
  name: string;
  split: Split;
  label: Label;
  width: number;
  height: number;
  tags: Array<string>;
}
/** changed: how many cases. */
export interface CasesTagged {
  tag: string;
  changed: number;
}
export interface ChangedCase {
  id: number;
  name: string;
  first: Decision;
  second: Decision;
  label: Label;
}
/** How a reader's second decisions differ from the first ones. */
export interface ChangedMind {
  both: number;
  to_abnormal: number;
  to_normal: number;
  to_unsure: number;
  for_better: number;
  for_worse: number;
  cases: Array<ChangedCase>;
}
/** One of the options, or several of them; names: what people read instead of an option. */
export interface ChoiceField {
  key: string;
  label: string;
  help: string;
  kind: "choice" | "several";
  options: Array<string>;
  names: Record<string, string>;
}
/** Categories: a code per point and their names. Numbers: values, one per point, null where unknown. */
export interface Column {
  name: string;
  title: string;
  names?: Array<string>;
  codes?: Array<number>;
  values?: Array<number | null>;
}
export interface Columns {
  columns: Array<Column>;
}
export interface Compared {
  runs: Array<ComparedRun>;
  series: Array<Series>;
  differences: Array<Difference>;
}
/** run: null for the baseline. Intervals are of 95 %. best: names of the measures in which no row is better. */
export interface ComparedRow {
  run: string | null;
  title: string;
  name: string;
  encoder: string | null;
  auroc: number | null;
  auroc_ci: [number, number] | null;
  pixel_auroc: number | null;
  pixel_auroc_ci: [number, number] | null;
  dice: number | null;
  dice_ci: [number, number] | null;
  pro: number | null;
  pro_ci: [number, number] | null;
  best: Array<string>;
}
export interface ComparedRun {
  id: string;
  name: string;
  method: string;
  status: string;
}
export interface Confusion {
  tp: number;
  fp: number;
  fn: number;
  tn: number;
  sensitivity: Share;
  specificity: Share;
  ppv: Share;
  npv: Share;
}
export interface Counts {
  total: number;
  read: number;
  unread: number;
  normal: number;
  abnormal: number;
  unsure: number;
}
export interface Decided {
  review: number;
  case: number;
  stage: ReviewStage;
  decision: Decision;
  next: CaseDetail | null;
  ahead: Array<Ahead>;
}
export type Decision = "normal" | "abnormal" | "unsure";
/** lesions: settings by the kind of lesion; none where the detector does not learn from fake ones. */
export interface DetectorForm {
  title: string;
  form: Array<Group>;
  defaults: Record<string, any>;
  lesions: Record<string, Record<string, any>>;
}
export interface Difference {
  key: string;
  values: Array<any>;
}
/** decisions: by reader. */
export interface Differing {
  case: number;
  name: string;
  decisions: Record<string, Decision>;
  adjudication: Adjudication | null;
}
/** Nothing but that it is done. */
export interface Done {
}
export interface DoneImport {
  done: number;
  total: number;
  started: number;
  stop?: boolean;
  state: "done";
  report: Report;
}
export interface DonorStudies {
  studies: Array<DonorStudy>;
}
export interface DonorStudy {
  id: string;
  name: string;
}
/** id: the case's. */
export interface Draft {
  id: number;
  updated: string;
}
export interface Drafts {
  drafts: Array<Draft>;
}
export interface Drop {
  drop: string;
}
/** memory, free: bytes. Without figures where the first steps did not fit. */
export interface DryRun {
  fits: boolean;
  message: string;
  seconds_step?: number;
  seconds_epoch?: number;
  seconds_total?: number;
  steps?: number;
  per_epoch?: number;
  images?: number;
  memory?: number;
  free?: number;
  device?: string;
  timed?: number;
}
export interface Duplicate {
  kind: string;
  train: string;
  test: string;
  correlation: number;
}
/** k: of MedMix's classes A_0 .. A_k; centred: class centres were saved, from which features can be measured. */
export interface EncoderRun {
  id: string;
  name: string;
  method: string;
  status: string;
  epochs: Array<number>;
  k: number;
  centred: boolean;
}
export interface EncoderRuns {
  runs: Array<EncoderRun>;
}
/** blind, neutral, shuffled: 0 or 1. */
export interface EndedSession {
  id: number;
  blind: number;
  neutral: number;
  shuffled: number;
  choice: string;
  created: string;
  ended: string;
  reader: string;
}
export interface Entered {
  case: CaseDetail | null;
  ahead: Array<Ahead>;
}
export interface Evaluation {
  auroc: number | null;
  ap: number | null;
  sensitivity: number | null;
  specificity: number | null;
  pixel_auroc: number | null;
  dice: number | null;
  iou: number | null;
  pro: number | null;
  protocol: string | null;
  roi: boolean | null;
}
export interface Event {
  id: number;
  at: string;
  who: string;
  kind: string;
  study: string | null;
  case_id: number | null;
  case: string | null;
  before: any;
  after: any;
  seconds: number | null;
}
/** Boxes are in parts of the images' width and height. */
export interface Explained {
  box: [number, number, number, number];
  there: [number, number, number, number];
  case: PictureOfCase;
  distance: number;
  usual: UsualDistance | null;
}
/** text: null where there is nothing to warn of. cases: with likely burned-in text. */
export interface ExportWarning {
  text: string | null;
  cases: Array<number>;
}
export interface FailedImport {
  done: number;
  total: number;
  started: number;
  stop?: boolean;
  state: "failed";
  error: string;
}
export type Field = NumberField | RangeField | ChoiceField | NumbersField | PlainField;
/** box: in pixels of the image; a point has both corners alike. */
export interface Finding {
  id: number;
  label: string;
  comment: string;
  reader: string;
  created: string;
  mask_version: number | null;
  box: [number, number, number, number] | null;
}
export interface Findings {
  findings: Array<Finding>;
}
export interface FitOfMap {
  id: string;
  name: string;
  method: string;
  parent: string | null;
}
export interface FitOfRun {
  id: string;
  name: string;
  method: string;
  status: string;
  evaluation: Evaluation | null;
}
export interface FittedRun {
  id: string;
  name: string;
  method: string;
  created: string;
}
export interface FleissKappa {
  kappa: number | null;
  low: number | null;
  high: number | null;
  n: number;
  readers: number;
}
/** flagged: 0 or 1. */
export interface Frame {
  id: number;
  frame: number;
  percentile: number | null;
  score: number | null;
  flagged: number | null;
}
export interface Freed {
  bytes: number;
}
/** The head of a painted grid; its mosaic follows as a JPEG. outlines: polygons by class and sample. aspect: width by height of the images before they were squeezed to squares; null where they differ. */
export interface GridHead {
  rows: number;
  cols: number;
  side: number;
  names: Array<string>;
  outlines: Array<Array<Array<Array<[number, number]>>>>;
  sources: Array<GridSource>;
  seconds: number;
  aspect: number | null;
}
/** Of what was pasted into sample m of A_n: cut out at `box` of the donor's column, put to `to`; in parts of the side. */
export interface GridSource {
  n: number;
  m: number;
  slot: number;
  box: [number, number, number, number];
  to: [number, number, number, number];
  donor: number;
}
export interface Group {
  title: string;
  fields: Array<Field>;
}
export interface ImportJob {
  id: number;
  status: JobStatus;
  message: string;
}
export type ImportState = RunningImport | DoneImport | FailedImport;
/** here, ahead: whether it is at the run that it is listed with, or comes to it later; null elsewhere. */
export interface Job {
  id: number;
  status: JobStatus;
  run: string | null;
  verb: string;
  progress: number;
  message: string;
  error: string | null;
  wants: string;
  position: number;
  here: boolean | null;
  ahead: boolean | null;
  steps: Array<string>;
}
/** Of something that is made once. job: null where it is ready. */
export interface JobAsked {
  key: string;
  ready: boolean;
  job: number | null;
}
export type JobStatus = "queued" | "running" | "paused" | "interrupted" | "failed" | "cancelled" | "done";
/** seen: when last known to be here, or null. last: the only administrator there is. The numbers are of one study's cases; read: of those assigned. */
export interface KeptAccount {
  name: string;
  role: "reader" | "adjudicator" | "administrator";
  created: string;
  seen: string | null;
  last: boolean;
  assigned: number;
  read: number;
  read_in_all: number;
}
export interface KeptAccountName {
  name: string;
}
export interface KeptPreset {
  preset: Preset;
}
export type Label = "normal" | "abnormal" | "unknown";
export interface Labels {
  labels: Array<string>;
}
/** A scored fit that can be learnt on from. seconds: about how long that takes; null where it is not known. */
export interface LearnFit {
  id: string;
  name: string;
  title: string;
  seconds: number | null;
}
/** masks, patients: accepted ones; it takes `least` patients, or images where these are not known. */
export interface Learning {
  masks: number;
  patients: number;
  readers: Array<string>;
  least: number;
  fits: Array<LearnFit>;
  learnt: Array<LearntRun>;
}
/** Of the run and the one that it learnt on from, on `cases` that it has not seen; `left_out` it has. */
export interface LearntBeside {
  base: string;
  run: string;
  cases: number;
  left_out: number;
  measures: Partial<Record<"auroc" | "pixel_auroc" | "dice" | "pro", MeasureBeside>>;
  verdict: "better" | "worse" | "mixed" | "same" | "few";
  words: string;
}
/** share: of the learnt map, 0 where it did not help on marked images left out; null until it is fitted. */
export interface LearntRun {
  id: string;
  name: string;
  created: string;
  status: string;
  base: string;
  masks: number;
  share: number | null;
  job: Job | null;
  comparison: LearntBeside | null;
}
export interface LeftOut {
  name: string;
  note: string;
}
/** real: how many real lesions were looked at. */
export interface LesionSimilarity {
  auroc_real: number;
  auroc_synthetic: number;
  closeness: number;
  distance: number;
  real: number;
}
/** total: rows of the list as it is filtered. labels: whether it may be filtered by label. */
export interface ListOverview {
  total: number;
  scores: ScoreSpread | null;
  tags: Array<TagCount>;
  labels: boolean;
}
export interface ListedSession {
  id: number;
  blind: number;
  neutral: number;
  shuffled: number;
  choice: string;
  created: string;
  ended: string;
  reader: string;
  cases: number;
}
export interface LogLine {
  at: string;
  line: string;
}
export interface Look {
  job: number;
  encoder: string;
  fit: string;
}
export interface Managed {
  readers: Array<AssignedReader>;
  cases: number;
  free: number;
  watch: Watch | null;
  runs: Array<FittedRun>;
  labels: Array<string>;
}
export interface MapAbout {
  key: string;
  config: MapConfig;
  run: string;
  run_name: string;
  study: string;
  points_key: string;
  groups: Array<string>;
  size: number;
  epochs: Array<MapEpoch>;
  seconds: number;
  points: PointIdentities;
  fits: Array<FitOfMap>;
}
export interface MapConfig {
  method: "tsne" | "umap" | "pca";
  feature: "centred" | "projected" | "backbone" | "patch";
  epochs: Array<number>;
  seed: number;
  perplexity: number;
  iterations: number;
  neighbours: number;
  min_dist: number;
  align: boolean;
  grid: number;
  patches: number;
  points: MapPoints;
}
/** numbers: metrics by the labels that they compare: classes, lesions or patches. radii: by group. */
export interface MapEpoch {
  epoch: number;
  snapshot: string;
  features_key: string;
  numbers: Record<string, Record<string, any>>;
  trustworthiness: number | null;
  radii: Array<number | null>;
  centres: Array<[number, number]> | null;
}
export interface MapPoints {
  train: number;
  holdout: number;
  mixed: number;
  mix_of: string;
  test_normal: number;
  abnormal: number;
  seed: number;
}
export interface MapRow {
  key: string;
  study: string;
  run: string;
  config: MapConfig;
  created: string;
  job: number | null;
  points: number | null;
  epochs: Array<number>;
  seconds: number | null;
  run_name: string;
  job_status: JobStatus | null;
  progress: number | null;
  message: string | null;
  ready: boolean;
}
export interface Maps {
  maps: Array<MapRow>;
  views: Array<SavedView>;
}
export interface MaskVersion {
  id: number;
  case_id: number;
  version: number;
  source: "import" | "hand" | "run";
  reader: string | null;
  created: string;
  run: string | null;
  threshold: number | null;
  note: string | null;
}
export interface Matrix {
  step: number;
  rows: Array<Array<number | null>>;
}
/** interval: 95 %, of the difference. enough: whether there are enough images to tell. */
export interface MeasureBeside {
  old: number | null;
  new: number | null;
  difference: number | null;
  interval: [number, number] | null;
  images: number;
  enough: boolean;
}
export interface MedMixForms {
  strong: Record<string, Strong>;
  weak: WeakForm;
}
export interface Missing {
  images: Array<string>;
  maps: Array<string>;
}
export interface NamedTable {
  name: string;
  title: string;
}
export interface NearestCase {
  id: number;
  name: string;
  v: string;
  width: number;
  height: number;
  bits: number | null;
  distance: number;
}
export interface NearestCases {
  cases: Array<NearestCase>;
}
export interface Neighbour {
  point: number;
  distance: number;
}
export interface Neighbours {
  neighbours: Array<Neighbour>;
}
/** password: answered this once. */
export interface NewPassword {
  name: string;
  password: string;
}
/** guess, kept: of kinds. look: seconds that a first look takes. */
export interface Next {
  kinds: Record<string, string>;
  guess: string | null;
  kept: string | null;
  scored: boolean;
  trained: boolean;
  look: number;
}
/** min, max: null where the form knows no limit. */
export interface NumberField {
  key: string;
  label: string;
  help: string;
  kind: "number" | "integer";
  min: number | null;
  max: number | null;
  step: number | "any";
  log?: boolean;
}
/** A fixed number of values, each with its name. */
export interface NumbersField {
  key: string;
  label: string;
  help: string;
  kind: "numbers";
  names: Array<string>;
  min: number | null;
  max: number | null;
  step: number | "any";
}
export interface OnWorklist {
  cases: number;
  left_out: number;
}
export interface OpenSession {
  id: number;
  study: string;
}
export interface Opened {
  case: CaseDetail;
  ahead: Array<Ahead>;
}
/** roc: (false positive rate, true positive rate); null where only one kind of case is known. */
export interface OperatingPoint {
  tp: number;
  fp: number;
  fn: number;
  tn: number;
  sensitivity: Share;
  specificity: Share;
  ppv: Share;
  npv: Share;
  against: "labels" | "readers";
  run: string;
  roc: Array<[number, number]> | null;
  auroc: number | null;
  point: [number, number] | null;
}
export interface OthersReview {
  reader: string;
  stage: ReviewStage;
  decision: Decision;
  comment: string;
}
export interface Outlines {
  roi: Array<Array<[number, number]>>;
  lesion: Array<Array<[number, number]>>;
}
/** sizes: the four most frequent, with how many images have them, of size_count. */
export interface Overview {
  study: Study;
  table: Table;
  masks: BySplit;
  sizes: Array<[string, number]>;
  size_count: number;
  bits: Array<number>;
  modalities: Array<string>;
  report: Report | null;
}
/** active: 0 once it is undone. */
export interface OwnReview {
  id: number;
  decision: Decision;
  comment: string;
  created: string;
  stage: ReviewStage;
  active: number;
}
/** A part of a case's pack; its bytes follow the head. */
export interface PackedPart {
  name: string;
  bytes: number;
  headers: Record<string, string | number>;
}
/** confusion: the first reader's decisions by row, the second's by column. */
export interface PairAgreement {
  kappa: number | null;
  low: number | null;
  high: number | null;
  n: number;
  readers: Array<string>;
  agreement: number | null;
  confusion: Array<Array<number>>;
}
/** flagged: 0 or 1. */
export interface PanelCase {
  id: number;
  name: string;
  label: Label;
  score: number;
  percentile: number;
  flagged: number;
  right: boolean;
}
export interface PictureOfCase {
  id: number;
  name: string;
  v: string;
  width: number;
  height: number;
  bits: number | null;
}
/** at: rows of the list before the case. */
export interface Place {
  case: number | null;
  at: number | null;
}
export interface PlainField {
  key: string;
  label: string;
  help: string;
  kind: "study" | "flag" | "text";
}
/** left: seconds until all of it is done. */
export interface Plan {
  stages: Array<Stage>;
  left: number;
  jobs: Array<number>;
  scored: boolean;
}
export type Point = [number, number | null];
/** case: null once it was removed. box: of the patch, in parts of the image. */
export interface PointDetail {
  point: number;
  case_id: number;
  lesions: number;
  group: string;
  case: CaseOfPoint | null;
  box: [number, number, number, number] | null;
  outline: Array<Array<[number, number]>>;
  reading: ReadingOfPoint | null;
  reviews: Array<ReviewOfPoint>;
}
/** place: of a map of patches. */
export interface PointIdentities {
  case_id: Array<number>;
  lesions: Array<number>;
  place?: Array<number>;
}
/** The numbers, the reader and the time only of those that readers have made; version 0 came with the studio. */
export interface Preset {
  name: string;
  strong: string;
  config: Record<string, any>;
  note: string;
  version: number;
  built_in: boolean;
  id?: number;
  reader?: string | null;
  created?: string;
  removed?: number;
}
export interface PresetOfFile {
  preset: ReadPreset;
}
export interface Presets {
  presets: Array<Preset>;
}
/** confusion: the true class by row. near: null where the study has too few lesion masks. study: whose real lesions those of `near` are. */
export interface Probe {
  accuracy: number;
  chance: number;
  lesion_accuracy: number;
  confusion: Array<Array<number>>;
  survival: number | null;
  lost: number | null;
  near: LesionSimilarity | null;
  words: Array<Said>;
  encoder: string;
  images: number;
  study: string;
  seconds: number;
}
export interface ProjectedImage {
  name: string;
  title: string;
  case_id: number;
  far: boolean;
  neighbours: Array<Neighbour>;
}
/** Images that were projected onto a map. cases: -1 for a file of a folder. far: by epoch and image, whether it lies out of the map's support. */
export interface Projection {
  key: string;
  title: string;
  images: number | null;
  job: number | null;
  job_status: JobStatus | null;
  progress: number | null;
  message: string | null;
  ready: true;
  names: Array<string>;
  cases: Array<number>;
  left_out: Array<any>;
  far: Array<Array<boolean>>;
}
export interface Projections {
  sets: Array<Projection | WaitingProjection>;
}
/** The conformal threshold: at most `alpha` of normal images are flagged; `share` of the test's normals are. */
export interface Promised {
  alpha: number;
  threshold: number | null;
  guarantee: string;
  held: number;
  needed: number;
  flagged: number;
  normals: number;
  share: Share;
}
/** Two values, from and to. */
export interface RangeField {
  key: string;
  label: string;
  help: string;
  kind: "range";
  min: number;
  max: number;
  step: number;
}
/** As it stands in a file. */
export interface ReadPreset {
  name: string;
  strong: string;
  config: Record<string, any>;
  note: string;
}
/** What a run says of a case. flagged: 0 or 1. */
export interface Reading {
  run: string;
  score: number | null;
  percentile: number | null;
  flagged: number | null;
  has_map: boolean;
  words: string;
  steady: Remark | null;
  members: Remark | null;
}
/** flagged, flagged_roi, has_map: 0 or 1. */
export interface ReadingOfPoint {
  run: string;
  score: number | null;
  score_roi: number | null;
  percentile: number | null;
  percentile_roi: number | null;
  flagged: number | null;
  flagged_roi: number | null;
  has_map: number;
}
export interface Rejected {
  path: string;
  reason: string;
}
export interface Remark {
  words: string;
  more: string;
  ok: boolean;
}
export interface Repeated {
  run: string;
  job: number;
}
/** first: the first new case, where cases were added to a study. */
export interface Report {
  study: string;
  accepted: number;
  rejected: Array<Rejected>;
  duplicates: Array<Duplicate>;
  layout?: string;
  masks?: number;
  counts?: Record<string, number>;
  burned_in?: Array<string>;
  patients?: number;
  straddling?: Array<Straddling>;
  first?: number | null;
}
/** done of wanted cells are made. files: kinds that the last report wrote, at `made`. */
export interface ReportBoard {
  choices: ReportChoices;
  tables: Array<ReportTable>;
  done: number;
  wanted: number;
  job: ReportJob | null;
  files: Array<string>;
  made: string | null;
  beside: Beside;
}
export interface ReportChoices {
  tables: Array<NamedTable>;
}
export interface ReportHead {
  metric: string;
  title: string;
}
export interface ReportJob {
  id: number;
  status: JobStatus;
  progress: number;
  message: string;
}
/** values: ours by metric; paper: the published ones. collapsed: how many encoders. failed: why nothing is made. */
export interface ReportRow {
  label: string;
  values: Record<string, ReportValue>;
  paper: Record<string, number>;
  seeds: Array<ReportSeed>;
  seconds: number | null;
  collapsed: number;
  failed: string;
}
/** fit, encoder: the runs; null where none is made. */
export interface ReportSeed {
  seed: number;
  fit: string | null;
  encoder: string | null;
}
export interface ReportTable {
  name: string;
  title: string;
  heads: Array<ReportHead>;
  rows: Array<ReportRow>;
}
export interface ReportValue {
  mean: number;
  deviation: number | null;
}
export interface RestoredMask {
  mask: number;
  version: number;
  pixels: number;
  masks: Array<MaskVersion>;
}
export type Results = ResultsOfRun | ResultsOfReaders;
/** Where no run has scored the study. minds: by reader. */
export interface ResultsOfReaders {
  runs: Array<ScoredRun>;
  run: null;
  agreement: Agreement;
  minds: Record<string, ChangedMind>;
  blind: boolean;
}
/** run: the one that the figures are of. minds: by reader. */
export interface ResultsOfRun {
  runs: Array<ScoredRun>;
  run: string;
  agreement: Agreement;
  minds: Record<string, ChangedMind>;
  blind: boolean;
  verdicts: Array<Verdict>;
  labels: OperatingPoint;
  readers: OperatingPoint;
  promise: Promised | null;
  compared: Array<ComparedRow>;
  panel: Array<PanelCase>;
}
/** decision: the one that counts now. */
export interface Reverted {
  review: number;
  case: number;
  decision: Decision | null;
  next: CaseDetail;
  ahead: Array<Ahead>;
}
export interface ReviewOfPoint {
  reader: string;
  decision: Decision;
  comment: string;
  created: string;
}
/** version: of the studio. blind: whether the study is read blind first; blinded: whether by this reader. */
export interface ReviewSetup {
  study: string;
  reader: string;
  version: string;
  rights: Rights;
  blind: boolean;
  blinded: boolean;
  session: SessionRow | null;
  runs: Array<ScoredRun>;
  labels: Array<string>;
  keys: Record<string, any>;
  show: Record<string, any>;
}
export type ReviewStage = "first" | "second" | "adjudication";
export interface Rights {
  role: "reader" | "adjudicator" | "administrator" | "single";
  administer: boolean;
  adjudicate: boolean;
}
/** A run's row. archived: 0 or 1. */
export interface Run {
  id: string;
  study: string;
  kind: "pretrain" | "fit";
  name: string;
  parent: string | null;
  method: string;
  config: Record<string, any>;
  status: string;
  folder: string | null;
  created: string;
  finished: string | null;
  seconds: number | null;
  code: string | null;
  packages: Record<string, string> | null;
  device: string | null;
  note: string;
  archived: number;
  summary: Record<string, any>;
  binned: string | null;
}
/** status: of pause, cancel and resume. bytes: of delete. */
export interface RunAction {
  status?: JobStatus;
  bytes?: number;
}
/** series: what is new since the step that was asked for, or all of it where `reset`. */
export interface RunDetail {
  run: Run;
  data: StudyOfRun | null;
  job: Job | null;
  plan: Steps;
  alarm: string | null;
  confusion: Matrix | null;
  distances: Matrix | null;
  log: Array<LogLine>;
  children: Array<FitOfRun>;
  evaluation: Evaluation | null;
  series: Series;
  stride: number;
  last: number;
  reset: boolean;
}
/** left: seconds until it is done; null where nothing is at it. archived: 0 or 1. */
export interface RunRow {
  id: string;
  kind: "pretrain" | "fit";
  name: string;
  parent: string | null;
  method: string;
  status: string;
  created: string;
  finished: string | null;
  seconds: number | null;
  note: string;
  archived: number;
  epochs: number | null;
  size: number | null;
  collapsed: boolean;
  job: Job | null;
  left: number | null;
  latest: Record<string, number>;
  evaluation: Evaluation | null;
}
export interface RunRows {
  runs: Array<RunRow>;
}
export interface RunningImport {
  done: number;
  total: number;
  started: number;
  stop?: boolean;
  state: "running";
}
export interface Said {
  kind: "good" | "warn";
  text: string;
}
export interface Sample {
  cases: Array<SampleCase>;
}
export interface SampleCase {
  id: number;
  name: string;
  split: Split;
  label: Label;
  width: number;
  height: number;
}
export interface SavedMask {
  mask: number;
  version: number;
  pixels: number;
  masks: Array<MaskVersion>;
  findings: Array<Finding>;
}
export interface SavedView {
  id: number;
  study: string;
  name: string;
  reader: string;
  created: string;
  state: Record<string, any>;
}
/** How scores are spread: counts of the bins between lo and hi; scores beyond are in the end bins. */
export interface ScoreSpread {
  bins: Array<number>;
  lo: number;
  hi: number;
  threshold: number | null;
}
/** first: whether the run is the newest of its detector. encoder: the method of the run that it is a fit on. */
export interface ScoredRun {
  id: string;
  name: string;
  method: string;
  title: string;
  encoder: string | null;
  created: string;
  first: boolean;
}
export type Series = Record<string, Array<Point>>;
export interface SessionAgreement {
  kappa: number | null;
  low: number | null;
  high: number | null;
  n: number;
  with: string;
  agreement: number | null;
}
export interface SessionChoice {
  name: string;
  title: string;
  cases: number;
}
export interface SessionNumber {
  session: number;
}
/** which: of which cases, in words. code: the commit that the run was made with. version: of the studio. */
export interface SessionReport {
  session: EndedSession;
  cases: number;
  read: number;
  seconds: Times | null;
  decisions: ByDecision;
  changed: number;
  point: Confusion | null;
  detector: Confusion | null;
  agreement: Array<SessionAgreement>;
  study: string;
  reader: string;
  which: string;
  run: ScoredRun | null;
  code: string | null;
  version: string;
  rows: Array<SheetRow>;
}
/** A reading session. blind, neutral, shuffled: 0 or 1. */
export interface SessionRow {
  id: number;
  study: string;
  reader: string;
  blind: number;
  neutral: number;
  shuffled: number;
  choice: string;
  run: string | null;
  first_review: number;
  last_review: number | null;
  created: string;
  ended: string | null;
}
/** point, detector: against the labels, by the reader's last decisions and by the run's flags. */
export interface SessionSummary {
  session: EndedSession;
  cases: number;
  read: number;
  seconds: Times | null;
  decisions: ByDecision;
  changed: number;
  point: Confusion | null;
  detector: Confusion | null;
  agreement: Array<SessionAgreement>;
}
/** What a session could hold, and the sessions that are over. */
export interface Sessions {
  choices: Array<SessionChoice>;
  over: Array<ListedSession>;
  blind: boolean;
}
/** hits of n, with the 95 % Wilson interval; null where n is 0. */
export interface Share {
  value: number | null;
  low: number | null;
  high: number | null;
  hits: number;
  n: number;
}
/** A case of a printed session. first, decision: the first and the last word. percentile, flagged: of the session's run. */
export interface SheetRow {
  name: string;
  first: Decision | null;
  decision: Decision | null;
  seconds: number | null;
  percentile: number | null;
  flagged: boolean | null;
}
export interface SizeGroup {
  from: number;
  to: number;
  n: number;
  dice: number;
  sd: number;
}
/** size: part of the image. */
export interface SizePoint {
  case: number;
  name: string;
  size: number;
  dice: number;
}
/** of: how many cases have a lesion mask and a heat map, of which `points` may be a part drawn by chance. */
export interface Sizes {
  points: Array<SizePoint>;
  groups: Array<SizeGroup>;
  threshold: number;
  of: number;
}
/** Millimetres of a pixel; null where the file does not say. */
export interface Spacing {
  x: number;
  y: number;
  at: "patient" | "detector";
}
export type Split = "train" | "holdout" | "test";
/** left: seconds. */
export interface Stage {
  title: string;
  state: "done" | "running" | "waiting" | "failed" | "stopped";
  left: number;
  share: number;
}
/** blind: studies that are read blind now. session: the open reading session. */
export interface Standing {
  blind: Array<string>;
  session: OpenSession | null;
}
export interface Started {
  run: string;
  fits: Array<string>;
  job: number;
}
export interface StartedFits {
  fits: Array<string>;
  job: number;
}
export interface StartedSession {
  session: number;
  cases: number;
}
/** beside: the short job at work while a training is `job`. arrived: when something last came in, by study. */
export interface Status {
  studies: Array<string>;
  job: Job | null;
  beside: Job | null;
  waiting: number;
  arrived: Record<string, string>;
  reading: Standing;
}
export interface StatusOfJob {
  status: JobStatus;
}
export interface Steps {
  steps: number;
  epochs: number;
  per_epoch: number;
  images: number;
}
/** Names of one patient's images. */
export interface Straddling {
  train: Array<string>;
  test: Array<string>;
}
/** section: of the paper. */
export interface Strong {
  title: string;
  section: string;
  form: Array<Group>;
  defaults: Record<string, any>;
}
export interface Study {
  id: string;
  name: string;
  created: string;
  folder: string | null;
  layout: string | null;
  config: Record<string, any>;
  fingerprint: string | null;
  binned: string | null;
  cases: number;
  masks: number;
  counts: Record<string, number>;
}
export interface StudyOfRun {
  name: string;
  fingerprint: string | null;
}
export interface Table {
  train: ByLabel;
  holdout: ByLabel;
  test: ByLabel;
}
export interface TagCount {
  tag: string;
  cases: number;
}
/** left_out: MedMix versions among the points. */
export interface Tagged {
  tag: string;
  cases: number;
  left_out: number;
}
/** Of an import: a token to ask for its state. */
export interface Task {
  task: string;
}
export interface Timeline {
  frames: Array<Frame>;
}
/** Seconds a case: the median, the quartiles, and the sum. */
export interface Times {
  median: number;
  low: number;
  high: number;
  total: number;
}
export interface Title {
  title: string;
}
export interface TourAct {
  tab?: string;
  click?: string;
  unless?: string;
  gone?: boolean;
  tick?: string;
  untick?: string;
  set?: string;
  value?: string;
  option?: string;
  slide?: string;
  through?: Array<number>;
  over?: number;
  wait?: string;
  there?: string;
  found?: boolean;
  press?: Array<string>;
  seconds?: number;
}
/** found: the case with the clearest lesion. */
export interface TourState {
  study: string;
  ready: boolean;
  job: Job | null;
  found: number | null;
}
export interface TourStep {
  tab: string;
  title: string;
  text: string;
  at: string;
  do?: Array<TourAct>;
  once?: boolean;
  seconds: number;
}
export interface TourSteps {
  about: string;
  steps: Array<TourStep>;
}
/** next: the `before` of the following page. kinds, people, studies: what the trail can be filtered by. */
export interface Trail {
  events: Array<Event>;
  next: number | null;
  kinds: Array<string>;
  people: Array<string>;
  studies: Array<string>;
}
export interface TrainingForms {
  objectives: Record<string, Title>;
  presets: Record<string, Record<string, any>>;
  usual: string;
  pasted: Record<string, string>;
  form: Array<Group>;
  encoder: Array<Group>;
  weak: WeakForm;
  strong: Record<string, string>;
  detectors: Record<string, DetectorForm>;
  lesions: Record<string, string>;
  device: string;
}
export interface Unassigned {
  readers: Array<AssignedReader>;
  cases: number;
  free: number;
  taken_back: number;
}
export interface UsualDistance {
  median: number;
  largest: number;
  count: number;
}
export interface Verdict {
  run: string;
  title: string;
  level: "good" | "warn" | "bad" | "none";
  words: string;
  advice: string;
  found: Share;
  alarms: Share;
  auroc: number | null;
}
export interface ViewNumber {
  id: number;
}
/** Images that are being projected onto a map. */
export interface WaitingProjection {
  key: string;
  title: string;
  images: number | null;
  job: number | null;
  job_status: JobStatus | null;
  progress: number | null;
  message: string | null;
  ready: false;
}
/** counts: incoming files by state. changed: when a case or a reading was last added. job: null while idle. */
export interface Watch {
  study: string;
  folder: string;
  run: string | null;
  active: boolean;
  copy: boolean;
  looked: string | null;
  message: string;
  changed: string | null;
  counts: Partial<Record<"waiting" | "ready" | "taken" | "double" | "failed", number>>;
  job: ImportJob | null;
  left_out: Array<LeftOut>;
}
export interface Watched {
  watch: Watch | null;
}
export interface WeakForm {
  form: Array<Group>;
  presets: Record<string, Record<string, any>>;
}
export interface Worklist {
  rows: Array<WorklistRow>;
  cursor: [number, string | number | null, number] | null;
}
/** flagged: 0 or 1. map: when the heat map was made. kinds: those of its tags that came with the import. None of these while the case is hidden. */
export interface WorklistRow {
  id: number;
  v: string;
  name: string;
  decision: Decision | null;
  first: Decision | null;
  second: Decision | null;
  adjudicated: Decision | null;
  key: [number, string | number | null, number];
  score?: number | null;
  percentile?: number | null;
  flagged?: number | null;
  map?: string | null;
  tags?: Array<string>;
  kinds?: Array<string>;
  disagreement?: number;
}

type Query = '' | `?${string}`;
type To<T> = Promise<T & { ok: true }>;
/** Throws an Error whose message is a sentence for the reader. */
export interface Api {
  (path: `/api/clusters/maps/${string}/points/${string}/neighbours${Query}`): To<Neighbours>;
  (path: `/api/clusters/maps/${string}/placed/${string}/${string}${Query}`): To<ProjectedImage>;
  (path: `/api/clusters/maps/${string}/worklist${Query}`, body: object): To<OnWorklist>;
  (path: `/api/clusters/maps/${string}/columns${Query}`): To<Columns>;
  (path: `/api/clusters/maps/${string}/placed/${string}${Query}`, body: undefined, options: { method: 'DELETE' }): To<Done>;
  (path: `/api/clusters/maps/${string}/points/${string}${Query}`): To<PointDetail>;
  (path: `/api/accounts/set/password${Query}`, body: object): To<NewPassword>;
  (path: `/api/clusters/maps/${string}/placed${Query}`): To<Projections>;
  (path: `/api/clusters/maps/${string}/placed${Query}`, body: object): To<JobAsked>;
  (path: `/api/accounts/set/removed${Query}`, body: object): To<KeptAccountName>;
  (path: `/api/study/case/${string}/outlines${Query}`): To<Outlines>;
  (path: `/api/training/run/${string}/repeat${Query}`, body: object): To<Repeated>;
  (path: `/api/clusters/maps/${string}/stop${Query}`, body: object): To<StatusOfJob>;
  (path: `/api/medmix/presets/read${Query}`, body: object): To<PresetOfFile>;
  (path: `/api/training/run/${string}/frees${Query}`, body: object): To<Freed>;
  (path: `/api/bin/study/${string}/restore${Query}`, body: object): To<Done>;
  (path: `/api/clusters/maps/${string}/tag${Query}`, body: object): To<Tagged>;
  (path: `/api/study/import/${string}/stop${Query}`, body: object): To<Done>;
  (path: `/api/accounts/set/role${Query}`, body: object): To<KeptAccountName>;
  (path: `/api/training/run/${string}/fit${Query}`, body: object): To<StartedFits>;
  (path: `/api/bin/run/${string}/restore${Query}`, body: object): To<Done>;
  (path: `/api/manage/${string}/unassign${Query}`, body: object): To<Unassigned>;
  (path: `/api/reading/${string}/summary${Query}`): To<SessionSummary>;
  (path: `/api/review/threshold${Query}`, body: object): To<Done>;
  (path: `/api/review/timeline/${string}${Query}`): To<Timeline>;
  (path: `/api/training/compare${Query}`): To<Compared>;
  (path: `/api/clusters/views/${string}${Query}`, body: undefined, options: { method: 'DELETE' }): To<Done>;
  (path: `/api/export/${string}/warning${Query}`): To<ExportWarning>;
  (path: `/api/medmix/presets/${string}${Query}`, body: undefined, options: { method: 'DELETE' }): To<Done>;
  (path: `/api/reading/${string}/report${Query}`): To<SessionReport>;
  (path: `/api/review/finding/${string}${Query}`, body: undefined, options: { method: 'DELETE' }): To<Findings>;
  (path: `/api/review/overview${Query}`): To<ListOverview>;
  (path: `/api/review/restore/${string}${Query}`, body: object): To<RestoredMask>;
  (path: `/api/review/settings${Query}`, body: object): To<Done>;
  (path: `/api/study/${string}/overview${Query}`): To<Overview>;
  (path: `/api/clusters/maps/${string}${Query}`, body: undefined, options: { method: 'DELETE' }): To<Done>;
  (path: `/api/clusters/maps/${string}${Query}`): To<MapAbout>;
  (path: `/api/clusters/views${Query}`, body: object): To<ViewNumber>;
  (path: `/api/manage/${string}/assign${Query}`, body: object): To<Assignments>;
  (path: `/api/manage/${string}/labels${Query}`, body: object): To<Labels>;
  (path: `/api/medmix/presets${Query}`): To<Presets>;
  (path: `/api/medmix/presets${Query}`, body: object): To<KeptPreset>;
  (path: `/api/results/${string}/sizes${Query}`): To<Sizes>;
  (path: `/api/review/finding${Query}`, body: object): To<Findings>;
  (path: `/api/training/check${Query}`, body: object): To<Done>;
  (path: `/api/training/forms${Query}`): To<TrainingForms>;
  (path: `/api/training/run/${string}/${string}${Query}`, body: object): To<RunAction>;
  (path: `/api/training/start${Query}`, body: object): To<Started>;
  (path: `/api/case/${string}/explain${Query}`): To<Explained>;
  (path: `/api/case/${string}/nearest${Query}`): To<NearestCases>;
  (path: `/api/clusters/maps${Query}`): To<Maps>;
  (path: `/api/clusters/maps${Query}`, body: object): To<JobAsked>;
  (path: `/api/clusters/runs${Query}`): To<EncoderRuns>;
  (path: `/api/export/bundle${Query}`, body: object): To<Bundle>;
  (path: `/api/manage/${string}/watch${Query}`): To<Watched>;
  (path: `/api/manage/${string}/watch${Query}`, body: object): To<Watched>;
  (path: `/api/medmix/donors${Query}`): To<DonorStudies>;
  (path: `/api/reading/start${Query}`, body: object): To<StartedSession>;
  (path: `/api/review/counts${Query}`): To<Counts>;
  (path: `/api/review/decide${Query}`, body: object): To<Decided>;
  (path: `/api/review/draft/${string}${Query}`, body: undefined, options: { method: 'DELETE' }): To<Done>;
  (path: `/api/review/draft/${string}${Query}`, body: object): To<Done>;
  (path: `/api/review/drafts${Query}`): To<Drafts>;
  (path: `/api/study/import/${string}${Query}`): To<ImportState>;
  (path: `/api/study/${string}/sample${Query}`): To<Sample>;
  (path: `/api/training/run/${string}${Query}`): To<RunDetail>;
  (path: `/api/training/runs${Query}`): To<RunRows>;
  (path: `/api/medmix/forms${Query}`): To<MedMixForms>;
  (path: `/api/medmix/probe${Query}`, body: object): To<Probe>;
  (path: `/api/review/case/${string}${Query}`): To<Opened>;
  (path: `/api/review/mask/${string}${Query}`, body: object): To<SavedMask>;
  (path: `/api/review/place${Query}`): To<Place>;
  (path: `/api/status/stop/${string}${Query}`, body: object): To<StatusOfJob>;
  (path: `/api/study/import${Query}`, body: object): To<Task>;
  (path: `/api/tour/prepare${Query}`, body: object): To<TourState>;
  (path: `/api/training/dry${Query}`, body: object): To<DryRun>;
  (path: `/api/reading/end${Query}`, body: object): To<SessionNumber>;
  (path: `/api/review/list${Query}`): To<Worklist>;
  (path: `/api/review/open${Query}`): To<ReviewSetup>;
  (path: `/api/review/redo${Query}`, body: object): To<Reverted>;
  (path: `/api/review/step${Query}`): To<Entered>;
  (path: `/api/review/undo${Query}`, body: object): To<Reverted>;
  (path: `/api/status/plan${Query}`): To<Plan>;
  (path: `/api/study/drop/${string}${Query}`, body: undefined, options: RequestInit & { method: 'PUT' }): To<Done>;
  (path: `/api/study/${string}/kind${Query}`, body: object): To<Labels>;
  (path: `/api/study/${string}/look${Query}`, body: object): To<Look>;
  (path: `/api/study/${string}/next${Query}`): To<Next>;
  (path: `/api/review/tag${Query}`, body: object): To<CasesTagged>;
  (path: `/api/study/demo${Query}`, body: object): To<Task>;
  (path: `/api/study/drop${Query}`, body: object): To<Drop>;
  (path: `/api/study/${string}/add${Query}`, body: object): To<Task>;
  (path: `/api/tour/reset${Query}`, body: object): To<TourState>;
  (path: `/api/tour/steps${Query}`): To<TourSteps>;
  (path: `/api/accounts/${string}${Query}`): To<Accounts>;
  (path: `/api/accounts${Query}`, body: object): To<NewPassword>;
  (path: `/api/results/${string}${Query}`): To<Results>;
  (path: `/api/manage/${string}${Query}`): To<Managed>;
  (path: `/api/reading${Query}`): To<Sessions>;
  (path: `/api/report/${string}${Query}`): To<ReportBoard>;
  (path: `/api/report/${string}${Query}`, body: object): To<AskedReport>;
  (path: `/api/learn/${string}${Query}`): To<Learning>;
  (path: `/api/learn/${string}${Query}`, body: object): To<AskedLearning>;
  (path: `/api/manage${Query}`): To<Rights>;
  (path: `/api/status${Query}`): To<Status>;
  (path: `/api/study/${string}${Query}`, body: undefined, options: { method: 'DELETE' }): To<Done>;
  (path: `/api/audit${Query}`): To<Trail>;
  (path: `/api/tour${Query}`): To<TourState>;
  (path: `/api/bin${Query}`): To<Bin>;
  (path: string, body?: unknown, options?: RequestInit): Promise<any>;
}
export interface Get {
  (path: `/api/clusters/maps/${string}/points/${string}/neighbours`, params?: Params): Promise<Answer<Neighbours>>;
  (path: `/api/clusters/maps/${string}/placed/${string}/${string}`, params?: Params): Promise<Answer<ProjectedImage>>;
  (path: `/api/clusters/maps/${string}/columns`, params?: Params): Promise<Answer<Columns>>;
  (path: `/api/clusters/maps/${string}/points/${string}`, params?: Params): Promise<Answer<PointDetail>>;
  (path: `/api/clusters/maps/${string}/placed`, params?: Params): Promise<Answer<Projections>>;
  (path: `/api/study/case/${string}/outlines`, params?: Params): Promise<Answer<Outlines>>;
  (path: `/api/reading/${string}/summary`, params?: Params): Promise<Answer<SessionSummary>>;
  (path: `/api/review/timeline/${string}`, params?: Params): Promise<Answer<Timeline>>;
  (path: `/api/training/compare`, params?: Params): Promise<Answer<Compared>>;
  (path: `/api/export/${string}/warning`, params?: Params): Promise<Answer<ExportWarning>>;
  (path: `/api/reading/${string}/report`, params?: Params): Promise<Answer<SessionReport>>;
  (path: `/api/review/overview`, params?: Params): Promise<Answer<ListOverview>>;
  (path: `/api/study/${string}/overview`, params?: Params): Promise<Answer<Overview>>;
  (path: `/api/clusters/maps/${string}`, params?: Params): Promise<Answer<MapAbout>>;
  (path: `/api/medmix/presets`, params?: Params): Promise<Answer<Presets>>;
  (path: `/api/results/${string}/sizes`, params?: Params): Promise<Answer<Sizes>>;
  (path: `/api/training/forms`, params?: Params): Promise<Answer<TrainingForms>>;
  (path: `/api/case/${string}/explain`, params?: Params): Promise<Answer<Explained>>;
  (path: `/api/case/${string}/nearest`, params?: Params): Promise<Answer<NearestCases>>;
  (path: `/api/clusters/maps`, params?: Params): Promise<Answer<Maps>>;
  (path: `/api/clusters/runs`, params?: Params): Promise<Answer<EncoderRuns>>;
  (path: `/api/manage/${string}/watch`, params?: Params): Promise<Answer<Watched>>;
  (path: `/api/medmix/donors`, params?: Params): Promise<Answer<DonorStudies>>;
  (path: `/api/review/counts`, params?: Params): Promise<Answer<Counts>>;
  (path: `/api/review/drafts`, params?: Params): Promise<Answer<Drafts>>;
  (path: `/api/study/import/${string}`, params?: Params): Promise<Answer<ImportState>>;
  (path: `/api/study/${string}/sample`, params?: Params): Promise<Answer<Sample>>;
  (path: `/api/training/run/${string}`, params?: Params): Promise<Answer<RunDetail>>;
  (path: `/api/training/runs`, params?: Params): Promise<Answer<RunRows>>;
  (path: `/api/medmix/forms`, params?: Params): Promise<Answer<MedMixForms>>;
  (path: `/api/review/case/${string}`, params?: Params): Promise<Answer<Opened>>;
  (path: `/api/review/place`, params?: Params): Promise<Answer<Place>>;
  (path: `/api/review/list`, params?: Params): Promise<Answer<Worklist>>;
  (path: `/api/review/open`, params?: Params): Promise<Answer<ReviewSetup>>;
  (path: `/api/review/step`, params?: Params): Promise<Answer<Entered>>;
  (path: `/api/status/plan`, params?: Params): Promise<Answer<Plan>>;
  (path: `/api/study/${string}/next`, params?: Params): Promise<Answer<Next>>;
  (path: `/api/tour/steps`, params?: Params): Promise<Answer<TourSteps>>;
  (path: `/api/accounts/${string}`, params?: Params): Promise<Answer<Accounts>>;
  (path: `/api/results/${string}`, params?: Params): Promise<Answer<Results>>;
  (path: `/api/manage/${string}`, params?: Params): Promise<Answer<Managed>>;
  (path: `/api/reading`, params?: Params): Promise<Answer<Sessions>>;
  (path: `/api/report/${string}`, params?: Params): Promise<Answer<ReportBoard>>;
  (path: `/api/learn/${string}`, params?: Params): Promise<Answer<Learning>>;
  (path: `/api/manage`, params?: Params): Promise<Answer<Rights>>;
  (path: `/api/status`, params?: Params): Promise<Answer<Status>>;
  (path: `/api/audit`, params?: Params): Promise<Answer<Trail>>;
  (path: `/api/tour`, params?: Params): Promise<Answer<TourState>>;
  (path: `/api/bin`, params?: Params): Promise<Answer<Bin>>;
}
export interface Post {
  (path: `/api/clusters/maps/${string}/worklist`, body?: Params): Promise<Answer<OnWorklist>>;
  (path: `/api/accounts/set/password`, body?: Params): Promise<Answer<NewPassword>>;
  (path: `/api/clusters/maps/${string}/placed`, body?: Params): Promise<Answer<JobAsked>>;
  (path: `/api/accounts/set/removed`, body?: Params): Promise<Answer<KeptAccountName>>;
  (path: `/api/training/run/${string}/repeat`, body?: Params): Promise<Answer<Repeated>>;
  (path: `/api/clusters/maps/${string}/stop`, body?: Params): Promise<Answer<StatusOfJob>>;
  (path: `/api/medmix/presets/read`, body?: Params): Promise<Answer<PresetOfFile>>;
  (path: `/api/training/run/${string}/frees`, body?: Params): Promise<Answer<Freed>>;
  (path: `/api/bin/study/${string}/restore`, body?: Params): Promise<Answer<Done>>;
  (path: `/api/clusters/maps/${string}/tag`, body?: Params): Promise<Answer<Tagged>>;
  (path: `/api/study/import/${string}/stop`, body?: Params): Promise<Answer<Done>>;
  (path: `/api/accounts/set/role`, body?: Params): Promise<Answer<KeptAccountName>>;
  (path: `/api/training/run/${string}/fit`, body?: Params): Promise<Answer<StartedFits>>;
  (path: `/api/bin/run/${string}/restore`, body?: Params): Promise<Answer<Done>>;
  (path: `/api/manage/${string}/unassign`, body?: Params): Promise<Answer<Unassigned>>;
  (path: `/api/review/threshold`, body?: Params): Promise<Answer<Done>>;
  (path: `/api/review/restore/${string}`, body?: Params): Promise<Answer<RestoredMask>>;
  (path: `/api/review/settings`, body?: Params): Promise<Answer<Done>>;
  (path: `/api/clusters/views`, body?: Params): Promise<Answer<ViewNumber>>;
  (path: `/api/manage/${string}/assign`, body?: Params): Promise<Answer<Assignments>>;
  (path: `/api/manage/${string}/labels`, body?: Params): Promise<Answer<Labels>>;
  (path: `/api/medmix/presets`, body?: Params): Promise<Answer<KeptPreset>>;
  (path: `/api/review/finding`, body?: Params): Promise<Answer<Findings>>;
  (path: `/api/training/check`, body?: Params): Promise<Answer<Done>>;
  (path: `/api/training/run/${string}/${string}`, body?: Params): Promise<Answer<RunAction>>;
  (path: `/api/training/start`, body?: Params): Promise<Answer<Started>>;
  (path: `/api/clusters/maps`, body?: Params): Promise<Answer<JobAsked>>;
  (path: `/api/export/bundle`, body?: Params): Promise<Answer<Bundle>>;
  (path: `/api/manage/${string}/watch`, body?: Params): Promise<Answer<Watched>>;
  (path: `/api/reading/start`, body?: Params): Promise<Answer<StartedSession>>;
  (path: `/api/review/decide`, body?: Params): Promise<Answer<Decided>>;
  (path: `/api/review/draft/${string}`, body?: Params): Promise<Answer<Done>>;
  (path: `/api/medmix/probe`, body?: Params): Promise<Answer<Probe>>;
  (path: `/api/review/mask/${string}`, body?: Params): Promise<Answer<SavedMask>>;
  (path: `/api/status/stop/${string}`, body?: Params): Promise<Answer<StatusOfJob>>;
  (path: `/api/study/import`, body?: Params): Promise<Answer<Task>>;
  (path: `/api/tour/prepare`, body?: Params): Promise<Answer<TourState>>;
  (path: `/api/training/dry`, body?: Params): Promise<Answer<DryRun>>;
  (path: `/api/reading/end`, body?: Params): Promise<Answer<SessionNumber>>;
  (path: `/api/review/redo`, body?: Params): Promise<Answer<Reverted>>;
  (path: `/api/review/undo`, body?: Params): Promise<Answer<Reverted>>;
  (path: `/api/study/${string}/kind`, body?: Params): Promise<Answer<Labels>>;
  (path: `/api/study/${string}/look`, body?: Params): Promise<Answer<Look>>;
  (path: `/api/review/tag`, body?: Params): Promise<Answer<CasesTagged>>;
  (path: `/api/study/demo`, body?: Params): Promise<Answer<Task>>;
  (path: `/api/study/drop`, body?: Params): Promise<Answer<Drop>>;
  (path: `/api/study/${string}/add`, body?: Params): Promise<Answer<Task>>;
  (path: `/api/tour/reset`, body?: Params): Promise<Answer<TourState>>;
  (path: `/api/accounts`, body?: Params): Promise<Answer<NewPassword>>;
  (path: `/api/report/${string}`, body?: Params): Promise<Answer<AskedReport>>;
  (path: `/api/learn/${string}`, body?: Params): Promise<Answer<AskedLearning>>;
}
export interface PostBytes {
  (path: `/api/clusters/maps/${string}/worklist`, params: Params, content: Uint8Array): Promise<Answer<OnWorklist>>;
  (path: `/api/accounts/set/password`, params: Params, content: Uint8Array): Promise<Answer<NewPassword>>;
  (path: `/api/clusters/maps/${string}/placed`, params: Params, content: Uint8Array): Promise<Answer<JobAsked>>;
  (path: `/api/accounts/set/removed`, params: Params, content: Uint8Array): Promise<Answer<KeptAccountName>>;
  (path: `/api/training/run/${string}/repeat`, params: Params, content: Uint8Array): Promise<Answer<Repeated>>;
  (path: `/api/clusters/maps/${string}/stop`, params: Params, content: Uint8Array): Promise<Answer<StatusOfJob>>;
  (path: `/api/medmix/presets/read`, params: Params, content: Uint8Array): Promise<Answer<PresetOfFile>>;
  (path: `/api/training/run/${string}/frees`, params: Params, content: Uint8Array): Promise<Answer<Freed>>;
  (path: `/api/bin/study/${string}/restore`, params: Params, content: Uint8Array): Promise<Answer<Done>>;
  (path: `/api/clusters/maps/${string}/tag`, params: Params, content: Uint8Array): Promise<Answer<Tagged>>;
  (path: `/api/study/import/${string}/stop`, params: Params, content: Uint8Array): Promise<Answer<Done>>;
  (path: `/api/accounts/set/role`, params: Params, content: Uint8Array): Promise<Answer<KeptAccountName>>;
  (path: `/api/training/run/${string}/fit`, params: Params, content: Uint8Array): Promise<Answer<StartedFits>>;
  (path: `/api/bin/run/${string}/restore`, params: Params, content: Uint8Array): Promise<Answer<Done>>;
  (path: `/api/manage/${string}/unassign`, params: Params, content: Uint8Array): Promise<Answer<Unassigned>>;
  (path: `/api/review/threshold`, params: Params, content: Uint8Array): Promise<Answer<Done>>;
  (path: `/api/review/restore/${string}`, params: Params, content: Uint8Array): Promise<Answer<RestoredMask>>;
  (path: `/api/review/settings`, params: Params, content: Uint8Array): Promise<Answer<Done>>;
  (path: `/api/clusters/views`, params: Params, content: Uint8Array): Promise<Answer<ViewNumber>>;
  (path: `/api/manage/${string}/assign`, params: Params, content: Uint8Array): Promise<Answer<Assignments>>;
  (path: `/api/manage/${string}/labels`, params: Params, content: Uint8Array): Promise<Answer<Labels>>;
  (path: `/api/medmix/presets`, params: Params, content: Uint8Array): Promise<Answer<KeptPreset>>;
  (path: `/api/review/finding`, params: Params, content: Uint8Array): Promise<Answer<Findings>>;
  (path: `/api/training/check`, params: Params, content: Uint8Array): Promise<Answer<Done>>;
  (path: `/api/training/run/${string}/${string}`, params: Params, content: Uint8Array): Promise<Answer<RunAction>>;
  (path: `/api/training/start`, params: Params, content: Uint8Array): Promise<Answer<Started>>;
  (path: `/api/clusters/maps`, params: Params, content: Uint8Array): Promise<Answer<JobAsked>>;
  (path: `/api/export/bundle`, params: Params, content: Uint8Array): Promise<Answer<Bundle>>;
  (path: `/api/manage/${string}/watch`, params: Params, content: Uint8Array): Promise<Answer<Watched>>;
  (path: `/api/reading/start`, params: Params, content: Uint8Array): Promise<Answer<StartedSession>>;
  (path: `/api/review/decide`, params: Params, content: Uint8Array): Promise<Answer<Decided>>;
  (path: `/api/review/draft/${string}`, params: Params, content: Uint8Array): Promise<Answer<Done>>;
  (path: `/api/medmix/probe`, params: Params, content: Uint8Array): Promise<Answer<Probe>>;
  (path: `/api/review/mask/${string}`, params: Params, content: Uint8Array): Promise<Answer<SavedMask>>;
  (path: `/api/status/stop/${string}`, params: Params, content: Uint8Array): Promise<Answer<StatusOfJob>>;
  (path: `/api/study/import`, params: Params, content: Uint8Array): Promise<Answer<Task>>;
  (path: `/api/tour/prepare`, params: Params, content: Uint8Array): Promise<Answer<TourState>>;
  (path: `/api/training/dry`, params: Params, content: Uint8Array): Promise<Answer<DryRun>>;
  (path: `/api/reading/end`, params: Params, content: Uint8Array): Promise<Answer<SessionNumber>>;
  (path: `/api/review/redo`, params: Params, content: Uint8Array): Promise<Answer<Reverted>>;
  (path: `/api/review/undo`, params: Params, content: Uint8Array): Promise<Answer<Reverted>>;
  (path: `/api/study/${string}/kind`, params: Params, content: Uint8Array): Promise<Answer<Labels>>;
  (path: `/api/study/${string}/look`, params: Params, content: Uint8Array): Promise<Answer<Look>>;
  (path: `/api/review/tag`, params: Params, content: Uint8Array): Promise<Answer<CasesTagged>>;
  (path: `/api/study/demo`, params: Params, content: Uint8Array): Promise<Answer<Task>>;
  (path: `/api/study/drop`, params: Params, content: Uint8Array): Promise<Answer<Drop>>;
  (path: `/api/study/${string}/add`, params: Params, content: Uint8Array): Promise<Answer<Task>>;
  (path: `/api/tour/reset`, params: Params, content: Uint8Array): Promise<Answer<TourState>>;
  (path: `/api/accounts`, params: Params, content: Uint8Array): Promise<Answer<NewPassword>>;
  (path: `/api/report/${string}`, params: Params, content: Uint8Array): Promise<Answer<AskedReport>>;
  (path: `/api/learn/${string}`, params: Params, content: Uint8Array): Promise<Answer<AskedLearning>>;
}
export interface Discard {
  (path: `/api/clusters/maps/${string}/placed/${string}`): Promise<Answer<Done>>;
  (path: `/api/clusters/views/${string}`): Promise<Answer<Done>>;
  (path: `/api/medmix/presets/${string}`): Promise<Answer<Done>>;
  (path: `/api/review/finding/${string}`): Promise<Answer<Findings>>;
  (path: `/api/clusters/maps/${string}`): Promise<Answer<Done>>;
  (path: `/api/review/draft/${string}`): Promise<Answer<Done>>;
  (path: `/api/study/${string}`): Promise<Answer<Done>>;
}

// No JSON:
//   GET /api/case/{case_id}/heat: application/octet-stream
//   GET /api/case/{case_id}/image.png: image/png
//   GET /api/case/{case_id}/mask.bits: application/octet-stream
//   GET /api/case/{case_id}/mask.png: image/png
//   GET /api/case/{case_id}/pack: application/octet-stream
//   GET /api/case/{case_id}/raw: application/octet-stream
//   GET /api/case/{case_id}/roi.bits: application/octet-stream
//   GET /api/case/{case_id}/thumb.png: image/png
//   GET /api/case/{case_id}/tile.webp: image/webp
//   GET /api/clusters/maps/{key}/coords: application/octet-stream
//   GET /api/clusters/maps/{key}/file.{format}: image/svg+xml, application/pdf, image/png, text/csv, application/vnd.apache.parquet
//   GET /api/clusters/maps/{key}/placed/{new}/coords: application/octet-stream
//   GET /api/clusters/maps/{key}/placed/{new}/{image}/image.png: image/png
//   GET /api/clusters/maps/{key}/placed/{new}/{image}/thumb.png: image/png
//   GET /api/clusters/maps/{key}/points/{point}/heat.png: image/png
//   GET /api/clusters/maps/{key}/points/{point}/image.png: image/png
//   GET /api/clusters/maps/{key}/points/{point}/thumb.png: image/png
//   POST /api/export/{study}/{kind}: application/zip, text/csv, application/json
//   POST /api/medmix/figure.{kind}: image/png, image/svg+xml, application/pdf
//   POST /api/medmix/grid: application/octet-stream
//   POST /api/medmix/presets.yaml: text/plain
//   GET /api/report/{study}/file.{kind}: text/html, text/csv, application/x-tex, text/x-tex, application/json
//   GET /api/review/draft/{case_id}: application/octet-stream
//   POST /api/review/segment/{case_id}: application/octet-stream
//   GET /api/study/case/{case_id}/tile.png: image/png
//   GET /api/training/run/{run_id}/batch.png: image/png
//   GET /tour: text/html
//   GET /walk: text/html
// Of these, with a head in JSON (its length first, a little-endian uint32):
//   GET /api/case/{case_id}/pack: Array<PackedPart>
//   POST /api/medmix/grid: GridHead

// Types of the vendored file beside this one; they come with the package, which the checks install.
export { default } from 'uplot';

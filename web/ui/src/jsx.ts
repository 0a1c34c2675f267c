// What every element of the page is made with; the build puts it where it is needed, by names
// that no other thing has.
export { h as jsxElement, Fragment as jsxFragment } from "preact";

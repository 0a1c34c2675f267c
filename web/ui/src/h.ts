// What every element of the page is made with; the build puts it where it is needed.
export { h, Fragment } from "preact";

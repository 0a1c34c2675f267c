// Package certfile reads the certificate that somebody gave a host, and says of one
// that clients would not take what is wrong and what to do, before it is served.
package certfile

// Package wiretest makes runs of chains, good ones and forged ones, for tests.
package wiretest

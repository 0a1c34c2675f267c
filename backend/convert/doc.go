// Package convert turns what the fold, the event log and coordination say into the
// API's types. It holds no state, has no effects and starts no goroutines; who asks
// and who may is not its business.
package convert

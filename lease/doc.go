// Package lease decides who holds the cluster's lease.
package lease

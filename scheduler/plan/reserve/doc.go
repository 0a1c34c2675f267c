// Package reserve keeps slots of zones free for those for whom they are reserved.
//
// Non-goals: which host has such a slot: any of the zone; and taking back what runs.
//
// Goroutines: none.
package reserve

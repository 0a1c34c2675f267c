// Package workers is the commands about who runs chunks: workers, groups and zones.
package workers

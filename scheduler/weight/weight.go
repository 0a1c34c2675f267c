package weight

import (
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// MaxOwner bounds the names of owners and of those who ask, in bytes.
const MaxOwner = 128

// Of is an upper bound of a draft's encoded size, in bytes.
func Of(d event.Draft) int {
	const frame = 512
	switch b := d.Body.(type) {
	case event.ChunksAssigned:
		return frame + 96*len(b.Assignments)
	case event.JobSubmitted:
		n := frame + 6*(job.MaxKeyBytes+job.MaxName+MaxOwner)
		for _, set := range [][]string{b.Spec.Zones, b.Spec.Permission.Users, b.Spec.Permission.Groups} {
			for _, v := range set {
				n += 6*len(v) + 8
			}
		}
		return n + frame + ofFile*(len(b.Spec.Files)+len(b.Spec.Outputs))
	case event.ChunksAccepted:
		n := frame
		for _, a := range b.Accepts {
			n += 256 + ofMetrics(a.Result.Metrics) + ofFile*len(a.Result.Outputs)
		}
		return n
	case event.ChunksReleased:
		return frame + 6*MaxOwner + 32*len(b.Chunks)
	case event.JobsForgotten:
		return frame + 64*len(b.Jobs)
	case event.UserSet, event.HostOwnerSet, event.WorkerEnrolled, event.WorkerRevoked, event.AccessSet:
		return 2*frame + 6*MaxOwner + 6*cluster.MaxPrincipal + 48*cluster.MaxUserKeys + 12*cluster.MaxUserUIDs
	case event.GroupSet:
		n := frame + 6*MaxOwner
		for _, m := range b.Members {
			n += 6*len(m) + 4
		}
		return n
	case interface{ Weight() int }:
		return frame + b.Weight()
	case event.JobDone:
		n := frame + 6*cluster.MaxReason
		if b.Result != nil {
			n += ofMetrics(b.Result.Metrics) + 128*(len(b.Result.Workers)+len(b.Result.GivenUp)) + 64*len(b.Result.Skipped) + (64+6*job.MaxAnomalyReason)*len(b.Result.Anomalies)
		}
		return n
	}
	return frame + 6*cluster.MaxReason + 6*(job.MaxKeyBytes+job.MaxName)
}

// ofFile is an upper bound of a file's name, hash and size.
const ofFile = 256

func ofMetrics(metrics map[string]job.Metric) int {
	n := 0
	for name, m := range metrics {
		n += 256 + 6*len(name) + 24*m.Sketch.Buckets() // an escaped byte takes six
	}
	return n
}

package stages

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

// load reads the stages of one kind as KWOK does, and rejects unknown fields.
func load(t *testing.T, kind string) lifecycle.Lifecycle {
	t.Helper()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	documents := yaml.NewYAMLReader(newReader(all))
	var found []*internalversion.Stage
	names := map[string]bool{}
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var stage v1alpha1.Stage
		if err := yaml.UnmarshalStrict(document, &stage); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if stage.APIVersion != v1alpha1.GroupVersion.String() || stage.Kind != v1alpha1.StageKind || names[stage.Name] {
			t.Fatalf("%s %s %q is no stage, or there are two of it", stage.APIVersion, stage.Kind, stage.Name)
		}
		names[stage.Name] = true
		internal, err := internalversion.ConvertToInternalStage(&stage)
		if err != nil {
			t.Fatal(err)
		}
		if stage.Spec.ResourceRef.Kind == kind {
			found = append(found, internal)
		}
	}
	loaded, err := lifecycle.NewLifecycle(found)
	if err != nil || len(loaded) == 0 || len(loaded) != len(found) {
		t.Fatalf("%d of %d stages of %s are used: %v", len(loaded), len(found), kind, err)
	}
	return loaded
}

// life plays an object as KWOK does, without its delays.
type life struct {
	stages   lifecycle.Lifecycle
	renderer gotpl.Renderer
}

func newLife(t *testing.T, kind string) life {
	t.Helper()
	addresses := func(...any) []string { return []string{"10.244.0.7"} }
	return life{stages: load(t, kind), renderer: gotpl.NewRenderer(gotpl.FuncMap{
		"NodeIP":      func() string { return "10.245.0.1" },
		"NodeIPsWith": addresses,
		"PodIPsWith":  addresses,
	})}
}

// next plays one stage, and returns its name and delay. An empty name means that no stage applies.
func next[T core.Pod | core.Node](t *testing.T, life life, object *T, labels labels.Set) (name string, delay time.Duration, deleted bool) {
	t.Helper()
	event := &lifecycle.Event{Labels: labels, Data: any(object)}
	possible, err := life.stages.ListAllPossible(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	if len(possible) == 0 {
		return "", 0, false
	}
	if len(possible) > 1 {
		t.Fatalf("it is left to chance whether %s or %s is played", possible[0].Name(), possible[1].Name())
	}
	stage := possible[0]
	delays, _, err := stage.DelayRangePossible(t.Context(), event, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if len(delays) > 0 {
		delay = delays[0]
	}
	changed := false
	_, err = stage.DoSteps(0, nil, any(object), life.renderer,
		func(*internalversion.StageEvent) error { return nil },
		func() error { deleted = true; return nil },
		func(patch *lifecycle.Patch) error {
			before, err := json.Marshal(object)
			if err != nil {
				return err
			}
			after, err := strategicpatch.StrategicMergePatch(before, patch.Data, *new(T))
			if err != nil {
				return err
			}
			var patched T
			// A field that Kubernetes does not know would be ignored silently.
			if err := json.Unmarshal(after, &patched); err != nil {
				return err
			}
			if err := yaml.UnmarshalStrict(patch.Data, new(T)); err != nil {
				return fmt.Errorf("%w in %s", err, patch.Data)
			}
			// The API server keeps times in whole seconds, as they are written.
			kept, err := json.Marshal(patched)
			if err != nil {
				return err
			}
			changed = !bytes.Equal(before, kept)
			*object = *new(T)
			return json.Unmarshal(kept, object)
		},
		func(*lifecycle.Apply) error { return errors.New("no stage creates objects") },
	)
	if err != nil {
		t.Fatalf("%s: %v", stage.Name(), err)
	}
	if !changed && !deleted {
		return "", 0, false
	}
	return stage.Name(), delay, deleted
}

// condition is the status of one condition of a pod.
func condition(pod *core.Pod, kind core.PodConditionType) core.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return "missing"
}

// describe summarises a pod's status in one line.
func describe(pod *core.Pod) string {
	state := "no container"
	if len(pod.Status.ContainerStatuses) > 0 {
		container := pod.Status.ContainerStatuses[0]
		switch current := container.State; {
		case current.Running != nil && container.Ready:
			state = "runs, ready"
		case current.Running != nil:
			state = "runs, not ready"
		case current.Waiting != nil:
			state = "waits: " + current.Waiting.Reason
		case current.Terminated != nil:
			state = fmt.Sprintf("ended: %s %d", current.Terminated.Reason, current.Terminated.ExitCode)
		}
		if container.RestartCount > 0 {
			state += fmt.Sprintf(", %d restarts", container.RestartCount)
		}
		if last := container.LastTerminationState.Terminated; last != nil {
			state += fmt.Sprintf(", before: %s %d", last.Reason, last.ExitCode)
		}
	}
	reason := string(pod.Status.Phase)
	if pod.Status.Reason != "" {
		reason += " " + pod.Status.Reason
	}
	return fmt.Sprintf("%s (Ready %s): %s", reason, condition(pod, core.PodReady), state)
}

func newPod(image, owner string, policy core.RestartPolicy) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{
			Name: "pod", Namespace: "default", UID: "1", OwnerReferences: []meta.OwnerReference{{Kind: owner, Name: "owner"}},
		},
		Spec: core.PodSpec{
			NodeName:      "simulated-1",
			RestartPolicy: policy,
			Containers:    []core.Container{{Name: "main", Image: image}, {Name: "second", Image: image}},
		},
		Status: core.PodStatus{Phase: core.PodPending},
	}
}

// images are those that some stage matches.
func images(t *testing.T) []string {
	t.Helper()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`- (trueup.dev/simulate/\S+)`).FindAllSubmatch(all, -1)
	var names []string
	for _, match := range found {
		names = append(names, string(match[1]))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func newReader(content []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(content)) }

package stages

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// seconds are the tags of images with a delay.
var seconds = []int{2, 5, 20, 60}

// lives are all images with what happens to a pod of a Deployment, stage by stage.
func lives() map[string][]string {
	wait := func(reason string) []string {
		return []string{"simulate-wait 200ms Pending (Ready False): waits: " + reason}
	}
	crash := func(end string) []string {
		loop := func(restarts int, delay string) []string {
			return []string{
				fmt.Sprintf("simulate-crash-start %s Running (Ready False): runs, not ready, %d restarts, before: %s", delay, restarts, end),
				fmt.Sprintf("simulate-crash-end 300ms Running (Ready False): waits: CrashLoopBackOff, %d restarts, before: %s", restarts, end),
			}
		}
		return slices.Concat([]string{
			"simulate-crash-start 200ms Running (Ready False): runs, not ready",
			"simulate-crash-end 300ms Running (Ready False): ended: " + end,
		}, loop(1, "200ms"), loop(2, "10s"), loop(3, "20s"), loop(4, "40s"), loop(5, "1m20s"), loop(6, "2m40s"), loop(7, "5m0s"), loop(8, "5m0s"))
	}
	all := map[string][]string{
		"any:1":               {"pod-ready 200ms Running (Ready True): runs, ready"},
		"image-missing:1":     wait("ImagePullBackOff"),
		"image-forbidden:1":   wait("ImagePullBackOff"),
		"image-unreachable:1": wait("ImagePullBackOff"),
		"config-missing:1":    wait("CreateContainerConfigError"),
		"crash-loop:1":        crash("Error 1"),
		"out-of-memory:1":     crash("OOMKilled 137"),
		"never-ready:1":       {"simulate-never-ready 200ms Running (Ready False): runs, not ready"},
	}
	for _, tag := range seconds {
		half := time.Duration(tag) * time.Second / 2
		all[fmt.Sprintf("slow-start:%ds", tag)] = []string{
			"simulate-slow-make 0s Pending (Ready False): waits: ContainerCreating",
			fmt.Sprintf("simulate-slow-run %s Running (Ready False): runs, not ready", half),
			fmt.Sprintf("simulate-slow-ready %s Running (Ready True): runs, ready", half),
		}
		all[fmt.Sprintf("evicted:%ds", tag)] = []string{
			"pod-ready 200ms Running (Ready True): runs, ready",
			fmt.Sprintf("simulate-evict %s Failed Evicted (Ready False): ended: Error 137", 2*half),
		}
		all[fmt.Sprintf("slow-stop:%ds", tag)] = []string{"pod-ready 200ms Running (Ready True): runs, ready"}
	}
	return all
}

// play plays at most as many stages as are expected and one more.
func play(t *testing.T, life life, pod *core.Pod, want []string) {
	t.Helper()
	var found []string
	for len(found) <= len(want) {
		name, delay, deleted := next(t, life, pod, nil)
		if name == "" {
			break
		}
		line := fmt.Sprintf("%s %s %s", name, delay, describe(pod))
		if deleted {
			line = fmt.Sprintf("%s %s deleted", name, delay)
		}
		found = append(found, line)
		if deleted {
			break
		}
	}
	// A crash loop never ends: what comes after is more of the same.
	if endless := len(want) > 10; endless && len(found) > len(want) {
		found = found[:len(want)]
	}
	if !slices.Equal(found, want) {
		t.Errorf("it lives as\n  %s\nand not as\n  %s", strings.Join(found, "\n  "), strings.Join(want, "\n  "))
	}
	if len(pod.Status.ContainerStatuses) != len(pod.Spec.Containers) {
		t.Errorf("%d statuses of %d containers", len(pod.Status.ContainerStatuses), len(pod.Spec.Containers))
	}
}

func TestEveryImageOfTheStagesHasALife(t *testing.T) {
	known := lives()
	delete(known, "any:1")
	var want []string
	for image := range known {
		want = append(want, "trueup.dev/simulate/"+image)
	}
	slices.Sort(want)
	if found := images(t); !slices.Equal(found, want) {
		t.Errorf("the stages know %q, the table %q", found, want)
	}
}

func TestImageSaysHowAPodLives(t *testing.T) {
	life := newLife(t, "Pod")
	for image, want := range lives() {
		t.Run(image, func(t *testing.T) {
			play(t, life, newPod("trueup.dev/simulate/"+image, "ReplicaSet", core.RestartPolicyAlways), want)
		})
	}
}

func TestRunOfAJobEndsOrFails(t *testing.T) {
	const ends = "pod-complete 500ms Succeeded (Ready False): ended: Completed 0"
	life := newLife(t, "Pod")
	for image, want := range map[string][]string{
		"any:1":           {"pod-ready 200ms Running (Ready True): runs, ready", ends},
		"crash-loop:1":    {"simulate-crash-once 300ms Failed (Ready False): ended: Error 1"},
		"out-of-memory:1": {"simulate-crash-once 300ms Failed (Ready False): ended: OOMKilled 137"},
		"image-missing:1": {"simulate-wait 200ms Pending (Ready False): waits: ImagePullBackOff"},
		"never-ready:1":   {"simulate-never-ready 200ms Running (Ready False): runs, not ready"},
	} {
		t.Run(image, func(t *testing.T) {
			play(t, life, newPod("trueup.dev/simulate/"+image, "Job", core.RestartPolicyNever), want)
		})
	}
}

func TestPodThatIsAskedToGoIsRemoved(t *testing.T) {
	life := newLife(t, "Pod")
	now := meta.Now()
	for image := range lives() {
		t.Run(image, func(t *testing.T) {
			want := "pod-delete 100ms deleted"
			if name, tag, _ := strings.Cut(image, ":"); name == "slow-stop" {
				duration, err := time.ParseDuration(tag)
				if err != nil {
					t.Fatal(err)
				}
				want = fmt.Sprintf("simulate-slow-stop %s deleted", duration)
			}
			pod := newPod("trueup.dev/simulate/"+image, "ReplicaSet", core.RestartPolicyAlways)
			// At every moment of its life, from before its start.
			for range 6 {
				going := pod.DeepCopy()
				going.DeletionTimestamp = &now
				name, delay, deleted := next(t, life, going, nil)
				if found := fmt.Sprintf("%s %s deleted", name, delay); !deleted || found != want {
					t.Errorf("%s: %q (%t) instead of %q", describe(pod), found, deleted, want)
				}
				if name, _, _ := next(t, life, pod, nil); name == "" {
					break
				}
			}
		})
	}
}

func TestReadyPodHasAddressesAndInitContainers(t *testing.T) {
	life := newLife(t, "Pod")
	pod := newPod("any", "ReplicaSet", core.RestartPolicyAlways)
	always := core.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []core.Container{{Name: "once", Image: "any"}, {Name: "beside", Image: "any", RestartPolicy: &always}}
	if name, _, _ := next(t, life, pod, nil); name != "pod-ready" {
		t.Fatalf("%q was played", name)
	}
	status := pod.Status
	if status.PodIP == "" || len(status.PodIPs) != 1 || status.HostIP == "" || status.StartTime == nil {
		t.Errorf("%+v", status)
	}
	if len(status.InitContainerStatuses) != 2 || status.InitContainerStatuses[0].State.Terminated == nil || status.InitContainerStatuses[1].State.Running == nil {
		t.Errorf("%+v", status.InitContainerStatuses)
	}
}

func TestPodsOfALostNodeAreReadyWhenItIsBack(t *testing.T) {
	life := newLife(t, "Pod")
	pod := newPod("any", "ReplicaSet", core.RestartPolicyAlways)
	next(t, life, pod, nil)
	// What the node controller does to pods of an unreachable node.
	for index := range pod.Status.Conditions {
		if pod.Status.Conditions[index].Type == core.PodReady {
			pod.Status.Conditions[index].Status = core.ConditionFalse
		}
	}
	play(t, life, pod, []string{"pod-recover 200ms Running (Ready True): runs, ready"})
	if condition(pod, core.ContainersReady) != core.ConditionTrue || len(pod.Status.Conditions) != 4 {
		t.Errorf("%+v", pod.Status.Conditions)
	}
}

func TestNodeBecomesReadyAndStaysSo(t *testing.T) {
	life := newLife(t, "Node")
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "simulated-1"}}
	for _, before := range []core.ConditionStatus{"", core.ConditionUnknown, core.ConditionFalse} {
		if before != "" {
			node.Status.Conditions[0].Status = before
		}
		if name, delay, _ := next(t, life, node, nil); name != "node-initialize" || delay != 0 {
			t.Errorf("%q: %s was played after %s", before, name, delay)
		}
		ready := node.Status.Conditions[0]
		if ready.Type != core.NodeReady || ready.Status != core.ConditionTrue || len(node.Status.Addresses) != 2 {
			t.Errorf("%+v", node.Status)
		}
	}
	old := meta.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	for index := range node.Status.Conditions {
		node.Status.Conditions[index].LastHeartbeatTime, node.Status.Conditions[index].LastTransitionTime = old, old
	}
	if name, delay, _ := next(t, life, node, nil); name != "node-heartbeat" || delay != 4*time.Minute {
		t.Errorf("%s was played after %s", name, delay)
	}
	for _, condition := range node.Status.Conditions {
		if !condition.LastHeartbeatTime.After(old.Time) || !condition.LastTransitionTime.Equal(&old) {
			t.Errorf("%+v", condition)
		}
	}
}

package io.eigentime.junit;

import static io.eigentime.Option.date;
import static io.eigentime.Option.frozen;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;
import static org.junit.platform.testkit.engine.EventConditions.event;
import static org.junit.platform.testkit.engine.EventConditions.finishedWithFailure;
import static org.junit.platform.testkit.engine.EventConditions.test;
import static org.junit.platform.testkit.engine.TestExecutionResultConditions.instanceOf;
import static org.junit.platform.testkit.engine.TestExecutionResultConditions.message;
import static org.junit.platform.testkit.engine.TestExecutionResultConditions.suppressed;

import io.eigentime.EigentimeException;
import io.eigentime.Timeline;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import java.time.Duration;
import java.time.Instant;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.assertj.core.api.Condition;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.platform.testkit.engine.EngineTestKit;
import org.junit.platform.testkit.engine.Events;

class TimelineExtensionTest {
    private static final Instant START = Instant.parse("2038-01-19T00:00:00Z");

    private static Events run(Class<?> tests) {
        return EngineTestKit.engine("junit-jupiter")
                .selectors(selectClass(tests))
                .execute()
                .testEvents();
    }

    private static void assertWithinAnHourAfter(Instant earliest, Timeline timeline) {
        Instant now = timeline.now();
        assertTrue(!now.isBefore(earliest) && now.isBefore(earliest.plusSeconds(3600)), now::toString);
    }

    @Nested
    @OnTimeline(date = "2038-01-19T00:00:00Z", rate = "0.5")
    class Annotated {
        private final Timeline constructed;
        private Timeline before;

        Annotated(Timeline timeline) {
            constructed = timeline;
        }

        @BeforeEach
        void before(Timeline timeline) {
            before = timeline;
        }

        @Test
        void theClassSaysHow(Timeline timeline) {
            assertWithinAnHourAfter(START, timeline);
            assertEquals(0.5, timeline.show().rate());
            assertFalse(timeline.show().joinable());
        }

        @Test
        @OnTimeline(offset = "+30d", joinable = true, arguments = "--freeze")
        void theMethodSaysHow(Timeline timeline) {
            assertWithinAnHourAfter(Instant.now().plus(Duration.ofDays(30)).minusSeconds(1800), timeline);
            assertEquals("frozen", timeline.show().state());
            assertTrue(timeline.show().joinable());
            assertEquals(1, timeline.show().rate());
        }

        @Test
        @InTheYear2040
        void anotherAnnotationSaysHow(Timeline timeline) {
            assertEquals(Instant.parse("2040-02-29T00:00:00Z"), timeline.now());
        }

        @AfterEach
        void itIsTheSameThroughoutATest(Timeline timeline) {
            assertSame(constructed, before);
            assertSame(before, timeline);
        }

        @Nested
        class Within {
            @Test
            void theClassAroundSaysHow(Timeline timeline) {
                assertWithinAnHourAfter(START, timeline);
            }
        }
    }

    @Retention(RetentionPolicy.RUNTIME)
    @Target(ElementType.METHOD)
    @OnTimeline(date = "2040-02-29T00:00:00Z", arguments = "--freeze")
    @interface InTheYear2040 {}

    @Nested
    class Registered {
        @RegisterExtension
        static final TimelineExtension TIMELINES = new TimelineExtension(date(START), frozen());

        @RepeatedTest(4)
        void eachTestHasItsOwn(Timeline timeline) {
            timeline.leap(Duration.ofDays(1));
            assertEquals(START.plus(Duration.ofDays(1)), timeline.now());
        }
    }

    @Nested
    @ExtendWith(TimelineExtension.class)
    class Extended {
        @Test
        void itIsTheDateOfTheHost(Timeline timeline) {
            assertWithinAnHourAfter(Instant.now().minusSeconds(1800), timeline);
        }
    }

    @Nested
    @OnTimeline
    class Shared {
        private static Timeline shared;

        @BeforeAll
        static void share(Timeline timeline) {
            shared = timeline;
        }

        @RepeatedTest(2)
        void allTestsGetTheSame(Timeline timeline) {
            assertSame(shared, timeline);
            assertEquals(shared.name(), timeline.info().name());
        }

        @Test
        @InTheYear2040
        void theNearestAnnotationSaysHow(Timeline timeline) {
            assertEquals(Instant.parse("2040-02-29T00:00:00Z"), timeline.now());
        }

        @Nested
        @OnTimeline(date = "2038-01-19T00:00:00Z", arguments = "--freeze")
        class Within {
            @Test
            void theNearestClassSaysHow(Timeline timeline) {
                assertEquals(START, timeline.now());
            }
        }

        @Nested
        class WithinWithoutOne {
            @Test
            void theClassAroundSharesIt(Timeline timeline) {
                assertSame(shared, timeline);
            }
        }
    }

    /** A class has the annotation or the field, since neither is nearer. */
    @OnTimeline
    static class Competing {
        @RegisterExtension
        static final TimelineExtension TIMELINES = new TimelineExtension(date(START));

        @Test
        void test(Timeline timeline) {}
    }

    @Test
    void anAnnotationAndAFieldOfAClassCompete() {
        run(Competing.class)
                .failed()
                .assertThatEvents()
                .haveExactly(1, event(finishedWithFailure(message(text -> text.contains("competing")))));
    }

    /** Run only by tests, as are those below. */
    @OnTimeline
    static class Ending {
        private static final Set<Timeline> GIVEN = ConcurrentHashMap.newKeySet();

        @RepeatedTest(3)
        void test(Timeline timeline) {
            GIVEN.add(timeline);
        }
    }

    @Test
    void eachEndsWithItsTest() {
        run(Ending.class).assertStatistics(statistics -> statistics.succeeded(3));
        assertEquals(3, Ending.GIVEN.size());
        Ending.GIVEN.forEach(timeline -> assertThrows(EigentimeException.class, timeline::now));
    }

    @OnTimeline(date = "2038-01-19T00:00:00Z", arguments = "--freeze")
    static class Failing {
        @Test
        void inTheTest(Timeline timeline) {
            timeline.leap(Duration.ofDays(30));
            throw new AssertionError("the token is still valid");
        }

        @Test
        void withoutATimeline() {
            throw new AssertionError("no timeline");
        }

        @Test
        void afterTheEnd(Timeline timeline) {
            timeline.remove();
            throw new AssertionError("too late");
        }
    }

    @Test
    void aFailureShowsTheVirtualTime() {
        Events events = run(Failing.class).failed();
        events.assertThatEvents().hasSize(3);
        events.assertThatEvents()
                .haveExactly(
                        1,
                        event(
                                test("inTheTest"),
                                finishedWithFailure(
                                        message("the token is still valid"),
                                        suppressed(
                                                0,
                                                message(text -> text.startsWith(
                                                        "virtual time 2038-02-18T00:00:00Z on timeline"))))))
                .haveExactly(
                        1,
                        event(
                                test("withoutATimeline"),
                                finishedWithFailure(new Condition<>(
                                        failure -> failure.getSuppressed().length == 0, "nothing is suppressed"))))
                .haveExactly(
                        1,
                        event(
                                test("afterTheEnd"),
                                finishedWithFailure(
                                        message("too late"), suppressed(0, instanceOf(EigentimeException.class)))));
    }

    @OnTimeline(date = "2038-01-19T00:00:00Z", arguments = "--freeze")
    static class FailingBefore {
        @BeforeEach
        void before(Timeline timeline) {
            throw new AssertionError("not even begun");
        }

        @Test
        void test() {}
    }

    @Test
    void soDoesOneBeforeTheTest() {
        run(FailingBefore.class)
                .failed()
                .assertThatEvents()
                .haveExactly(
                        1,
                        event(finishedWithFailure(
                                message("not even begun"),
                                suppressed(
                                        0,
                                        message(text ->
                                                text.startsWith("virtual time 2038-01-19T00:00:00Z on timeline"))))));
    }

    @OnTimeline(date = "soon")
    static class Impossible {
        @Test
        void test(Timeline timeline) {}
    }

    @Test
    void aTimelineThatCannotBeMadeFailsTheTest() {
        run(Impossible.class)
                .failed()
                .assertThatEvents()
                .haveExactly(1, event(finishedWithFailure(message(text -> text.contains("soon")))));
    }
}

package io.eigentime.junit;

import io.eigentime.Option;
import io.eigentime.Timeline;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;

/**
 * Timelines as fixtures: each test that has a parameter of type {@link Timeline} gets its own, which ends with
 * the test. {@link OnTimeline} configures it, or else the options of this object:
 *
 * <pre>{@code
 *     @RegisterExtension
 *     static final TimelineExtension TIMELINES = new TimelineExtension(date("2038-01-19"), rate(60));
 * }</pre>
 *
 * <p>The constructor, {@code @BeforeEach} and {@code @AfterEach} get the test's timeline. If {@code @BeforeAll} asks
 * for one, all tests of the class share it, except those that have their own annotation. When a test fails, its
 * failure has the virtual time as a suppressed exception.
 */
public final class TimelineExtension implements ParameterResolver, AfterEachCallback {
    private static final ExtensionContext.Namespace OURS = ExtensionContext.Namespace.create(TimelineExtension.class);

    private final Option[] options;

    /** For {@code @ExtendWith}: without {@link OnTimeline}, timelines are at the host's date. */
    public TimelineExtension() {
        this(new Option[0]);
    }

    /**
     * For {@code @RegisterExtension}.
     *
     * @param options how timelines are made for tests without {@link OnTimeline}
     */
    public TimelineExtension(Option... options) {
        this.options = options.clone();
    }

    @Override
    public ExtensionContextScope getTestInstantiationExtensionContextScope(ExtensionContext root) {
        return ExtensionContextScope.TEST_METHOD;
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Timeline.class;
    }

    @Override
    public Timeline resolveParameter(ParameterContext parameter, ExtensionContext context) {
        // The store closes it at the end of the context.
        return context.getStore(OURS)
                .getOrComputeIfAbsent(
                        annotation(context),
                        nearest -> Timeline.create(
                                nearest.map(TimelineExtension::options).orElse(options)),
                        Timeline.class);
    }

    /** The nearest annotation: of the method, of its class, or of an enclosing class. */
    private static Optional<OnTimeline> annotation(ExtensionContext context) {
        return AnnotationSupport.findAnnotation(context.getElement(), OnTimeline.class)
                .or(() -> context.getParent().flatMap(TimelineExtension::annotation));
    }

    private static Option[] options(OnTimeline annotation) {
        var arguments = new ArrayList<>(List.of(annotation.arguments()));
        arguments.addAll(List.of("--date=" + annotation.date(), "--offset=" + annotation.offset()));
        arguments.addAll(List.of("--rate=" + annotation.rate(), annotation.joinable() ? "--joinable" : "="));
        arguments.removeIf(argument -> argument.endsWith("=")); // Those not given.
        return new Option[] {Option.arguments(arguments.toArray(String[]::new))};
    }

    @Override
    public void afterEach(ExtensionContext context) {
        Timeline timeline = context.getStore(OURS).get(annotation(context), Timeline.class);
        if (timeline != null) {
            context.getExecutionException().ifPresent(failure -> failure.addSuppressed(virtualTime(timeline)));
        }
    }

    private static Throwable virtualTime(Timeline timeline) {
        var shown = new Exception("virtual time " + timeline.now() + " on timeline '" + timeline.name() + "'");
        shown.setStackTrace(new StackTraceElement[0]);
        return shown;
    }
}

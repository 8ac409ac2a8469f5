package io.eigentime.junit;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Gives a test, or each test of a class, a {@link io.eigentime.Timeline} as a parameter. On a method, it overrides
 * the annotation of the class.
 *
 * <pre>{@code
 *     @Test
 *     @OnTimeline(date = "2038-01-19")
 *     void tokenExpires(Timeline timeline) { ... }
 * }</pre>
 */
@ExtendWith(TimelineExtension.class)
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.ANNOTATION_TYPE, ElementType.METHOD, ElementType.TYPE})
public @interface OnTimeline {
    /** {@return the date that the wall clock shows initially, such as {@code 2038-01-19}} */
    String date() default "";

    /** {@return how far the wall clock is ahead of the host's, such as {@code +30d}} */
    String offset() default "";

    /** {@return how many seconds pass per host second, such as {@code 60} or {@code 1/3}} */
    String rate() default "";

    /** {@return whether containers may join the timeline} */
    boolean joinable() default false;

    /** {@return further options of {@code eigentime ctl create}, such as {@code --skip-idle}} */
    String[] arguments() default {};
}
